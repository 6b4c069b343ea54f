-- once_look.lua: tells when a job was completed last. Changes nothing.
-- KEYS    [1] the job's lock  [2] its record, once_record.lua
-- ARGV    [1] flags  [2] any token  [3] window, ms; 0 is forever
-- Returns 'done NOW COMPLETED FENCE TRY counts|over INFO\nRESULT'  COMPLETED in µs
--         'none NOW TRIES'  it never was; it was begun so many times
-- requires prelude, once_record, answer

local function main()
  local f = redis.call('HMGET', record, 'done', 'tries')
  if f[1] then return latest(tonumber(f[1]), tonumber(ARGV[3])) end
  return 'none ' .. at .. ' ' .. (f[2] or 0)
end
