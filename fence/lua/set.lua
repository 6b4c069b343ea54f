-- set.lua: sets a value. Follows guard.lua.
--
-- KEYS    [1] the value's key
-- ARGV    [1] value  [2] its time to live in ms; 0: forever
-- Returns 'set'
--         the guard's errors
--         an error of SET, such as OOM: the mark may be raised, but the value is unchanged

if tonumber(ARGV[2]) > 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[1])
end
return 'set'
