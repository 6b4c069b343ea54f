-- redisson_read_lock.lua: acquires a read lock with the commands of Redisson's RedissonReadLock.tryLockInnerAsync, in
-- the same order.
--
-- KEYS    [1] lock: a hash  [2] beginning of the keys of this holder's timeouts
-- ARGV    [1] lease time in ms  [2] holder  [3] holder as a writer
-- Returns nil if it was acquired, otherwise how many ms the writer's lease lasts
local mode = redis.call("hget", KEYS[1], "mode")
if not mode then
  local timeout = KEYS[2] .. ":1"
  redis.call("hset", KEYS[1], "mode", "read")
  redis.call("hset", KEYS[1], ARGV[2], 1)
  redis.call("set", timeout, 1)
  redis.call("pexpire", timeout, ARGV[1])
  redis.call("pexpire", KEYS[1], ARGV[1])
  return nil
end
if mode == "write" and redis.call("hexists", KEYS[1], ARGV[3]) == 0 then
  return redis.call("pttl", KEYS[1])
end
local timeout = KEYS[2] .. ":" .. redis.call("hincrby", KEYS[1], ARGV[2], 1)
redis.call("set", timeout, 1)
redis.call("pexpire", timeout, ARGV[1])
redis.call("pexpire", KEYS[1], math.max(redis.call("pttl", KEYS[1]), ARGV[1]))
return nil
