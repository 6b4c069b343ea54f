-- latest.lua: what to say of a run that was completed. A fragment; needs record.lua.

-- Whether a run that was completed then still counts. window in ms; 0 for ever.
local function counts(done, window)
  return done and (window == 0 or now < done + window * 1000)
end

-- The latest run that was completed, in words.
local function latest(done, window)
  local f = redis.call('HMGET', record, 'fence', 'count', 'info', 'result')
  return 'done ' .. whole(now) .. ' ' .. whole(done) .. ' ' .. f[1] .. ' ' .. f[2] .. ' '
    .. (counts(done, window) and 'counts ' or 'over ') .. f[3] .. '\n' .. f[4]
end
