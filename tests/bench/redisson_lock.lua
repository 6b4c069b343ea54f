-- redisson_lock.lua: acquires a lock with the commands of Redisson's RedissonLock.tryLockInnerAsync, in the same order.
--
-- KEYS    [1] lock: a hash
-- ARGV    [1] lease time in ms  [2] holder
-- Returns nil if it was acquired, otherwise how many ms the holder's lease lasts
if redis.call("exists", KEYS[1]) == 0 or redis.call("hexists", KEYS[1], ARGV[2]) == 1 then
  redis.call("hincrby", KEYS[1], ARGV[2], 1)
  redis.call("pexpire", KEYS[1], ARGV[1])
  return nil
end
return redis.call("pttl", KEYS[1])
