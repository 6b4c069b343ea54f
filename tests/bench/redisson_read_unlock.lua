-- redisson_read_unlock.lua: releases a read lock with the commands of Redisson's RedissonReadLock.unlockInnerAsync, in
-- the same order, but without the latch that keeps a repeated release from counting twice: a GET and a SET, and a DEL
-- that Redisson sends afterwards.
--
-- KEYS    [1] lock: a hash  [2] its channel  [3] beginning of the keys of this holder's timeouts  [4] of all holders'
-- ARGV    [1] message for waiters  [2] holder
-- Returns nil if the holder does not have the lock, 1 if nobody has it any more, 0 if somebody does
local mode = redis.call("hget", KEYS[1], "mode")
if not mode then
  redis.call("publish", KEYS[2], ARGV[1])
  return nil
end
if redis.call("hexists", KEYS[1], ARGV[2]) == 0 then return nil end
local left = redis.call("hincrby", KEYS[1], ARGV[2], -1)
if left == 0 then redis.call("hdel", KEYS[1], ARGV[2]) end
redis.call("del", KEYS[3] .. ":" .. left + 1)
if redis.call("hlen", KEYS[1]) > 1 then
  local longest = -3
  for _, holder in ipairs(redis.call("hkeys", KEYS[1])) do
    local holds = tonumber(redis.call("hget", KEYS[1], holder)) -- nil of the mode
    for i = holds or 0, 1, -1 do
      longest = math.max(longest, redis.call("pttl", KEYS[4] .. ":" .. holder .. ":rwlock_timeout:" .. i))
    end
  end
  if longest > 0 then
    redis.call("pexpire", KEYS[1], longest)
    return 0
  end
  if mode == "write" then return 0 end
end
redis.call("del", KEYS[1])
redis.call("publish", KEYS[2], ARGV[1])
return 1
