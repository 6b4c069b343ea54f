-- read.lua: reads a register for the holder of a fence. Afterwards no holder of an earlier grant can write: the mark
-- rises before anything is read.
--
-- A register expires an hour after it was last read, in case nobody could delete it.
--
-- KEYS    [1] register: a hash with the fields mark and value
-- ARGV    [1] fence
-- Returns {1, VALUE}; {0, MARK} if a higher fence was seen: then nothing changes.

local mark = redis.call('HGET', KEYS[1], 'mark')
if mark and tonumber(ARGV[1]) < tonumber(mark) then
  return {0, mark}
end
redis.call('HSET', KEYS[1], 'mark', ARGV[1])
redis.call('PEXPIRE', KEYS[1], 3600000)
return {1, redis.call('HGET', KEYS[1], 'value') or ''}
