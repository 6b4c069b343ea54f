-- Takes a read lock as the script of Redisson's RedissonReadLock.tryLockInnerAsync does: the
-- same commands in the same order.
-- KEYS: the lock, a hash; what the keys of this holder's timeouts begin with.
-- ARGV: lease time in ms, the holder, the holder as a writer.
-- Replies nil if it was taken, or for how many ms the writer's lease lasts.
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
