-- record.lua: what is known of the runs of a job. A fragment; needs prelude.lua.
--
-- The record is a hash:
--   tries   begun in the latest window, none of which was completed
--   first   server time (µs) of the first of them
--   last    the fence of the latest
--   done    server time (µs) at which a run was completed for the last time
--   fence, info, result  of that run, and count, which of the window's tries it was
local record = KEYS[2]

-- Makes the record last for keep ms at least.
local function keep_record(keep)
  if redis.call('PTTL', record) < keep then
    redis.call('PEXPIRE', record, keep)
  end
end
