-- once_record.lua: what the server knows of a job's runs. KEYS[2] is the record, a hash:
--   tries   runs begun in the latest window, of which none was completed
--   first   server time (µs) of the first of them
--   last    the fence of the latest
--   done    server time (µs) of the latest completion
--   fence, info, result  of the completed run, and count, which of the window's tries it was

local record = KEYS[2]

-- Makes the record last for at least keep ms.
local function keep_record(keep)
  if redis.call('PTTL', record) < keep then
    redis.call('PEXPIRE', record, keep)
  end
end
