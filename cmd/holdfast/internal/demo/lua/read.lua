-- read.lua: reads a register for the holder of a fence. From then on no holder of an
-- earlier grant can write: that is why the mark rises before anything is read.
--
-- A register that nobody reads for an hour is one that nobody could delete: it expires.
--
-- KEYS    [1] register: a hash with the fields mark and value
-- ARGV    [1] fence
-- Returns {1, VALUE}; {0, MARK} when a higher fence was seen, and nothing changes.

local mark = redis.call('HGET', KEYS[1], 'mark')
if mark and tonumber(ARGV[1]) < tonumber(mark) then
  return {0, mark}
end
redis.call('HSET', KEYS[1], 'mark', ARGV[1])
redis.call('PEXPIRE', KEYS[1], 3600000)
return {1, redis.call('HGET', KEYS[1], 'value') or ''}
