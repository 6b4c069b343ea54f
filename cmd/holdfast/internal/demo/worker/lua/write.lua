-- write.lua: writes a register, unless a holder with a higher fence has read or written it since.
--
-- KEYS    [1] register: a hash with the fields mark and value
-- ARGV    [1] fence  [2] value
-- Returns {1, ''}; {0, MARK} if a higher fence was seen: then nothing changes.

local mark = redis.call('HGET', KEYS[1], 'mark')
if mark and tonumber(ARGV[1]) < tonumber(mark) then
  return {0, mark}
end
redis.call('HSET', KEYS[1], 'mark', ARGV[1], 'value', ARGV[2])
return {1, ''}
