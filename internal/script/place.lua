-- place.lua: a place in the queue. A fragment; needs prelude.lua.

-- Puts a waiter into the queue if it is not in it, in its earlier place if it had one,
-- and returns its score.
local function place(member, earlier)
  local known = redis.call('ZSCORE', KEYS[2], member)
  local score = tonumber(known or earlier)
  if not score then
    local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
    score = math.max(now, (tonumber(last[2]) or 0) + 1)
  end
  if not known then
    redis.call('ZADD', KEYS[2], whole(score), member)
  end
  -- Longer than the longest time between two checks of a waiter; a tombstone may need
  -- the queue for longer. With some more, so that few enqueues have to set it.
  if redis.call('PTTL', KEYS[2]) < 60000 then
    redis.call('PEXPIRE', KEYS[2], 70000)
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. whole(-now), '(0')
  return score
end
