-- redisson_unlock.lua: releases a lock with the commands of Redisson's RedissonLock.unlockInnerAsync, in the same order,
-- but without the latch that keeps a repeated release from counting twice: a GET and a SET, and a DEL that Redisson sends
-- afterwards.
--
-- KEYS    [1] lock: a hash  [2] its channel
-- ARGV    [1] message for waiters  [2] lease time in ms  [3] holder
-- Returns nil if the holder does not have the lock, 1 if nobody has it any more, 0 if the holder still has it
if redis.call("hexists", KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call("hincrby", KEYS[1], ARGV[3], -1) > 0 then
  redis.call("pexpire", KEYS[1], ARGV[2])
  return 0
end
redis.call("del", KEYS[1])
redis.call("publish", KEYS[2], ARGV[1])
return 1
