-- once_record.lua: what the server knows of a job's runs. KEYS[2] is the record, a hash:
--   tries   runs begun in the latest window, of which none was completed
--   first   server time (µs) of the first of them
--   last    the fence of the latest
--   done    server time (µs) of the latest completion
--   fence, info, result  of the completed run, and count, which of the window's tries it was
-- requires request

local record = KEYS[2]

-- Reports whether a run that was completed at that time still counts. window is in ms; 0 is forever.
local function counts(done, window)
  return done and (window == 0 or now < done + window * 1000)
end

-- Returns the reply about the latest completed run.
local function latest(done, window)
  local f = redis.call('HMGET', record, 'fence', 'count', 'info', 'result')
  return 'done ' .. at .. ' ' .. whole(done) .. ' ' .. f[1] .. ' ' .. f[2] .. ' '
    .. (counts(done, window) and 'counts ' or 'over ') .. f[3] .. '\n' .. f[4]
end
