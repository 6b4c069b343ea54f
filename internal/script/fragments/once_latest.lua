-- once_latest.lua: the reply about the latest completed run of a job.
-- requires request, once_record

-- Reports whether a run that was completed at that time still counts. window is in ms; 0 is forever.
local function counts(done, window)
  return done and (window == 0 or now < done + window * 1000)
end

-- Returns the reply about the latest completed run.
local function latest(done, window)
  local f = redis.call('HMGET', record, 'fence', 'count', 'info', 'result')
  return 'done ' .. whole(now) .. ' ' .. whole(done) .. ' ' .. f[1] .. ' ' .. f[2] .. ' '
    .. (counts(done, window) and 'counts ' or 'over ') .. f[3] .. '\n' .. f[4]
end
