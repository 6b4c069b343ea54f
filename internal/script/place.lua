-- place.lua: a place in the queue. A fragment; needs prelude.lua and queue.lua.

-- After so many µs in the queue a waiter is worth a look, whether it is dead: each has looked,
-- and subscribed anew, by then.
local old_age = 60000000

-- Removes some of the old waiters that are dead, wherever they stand. So a queue does not grow
-- for as long as a lock is held, by those who come and die.
local function drop_old(self)
  local old = redis.call('ZCOUNT', KEYS[2], '0', whole(now - old_age))
  if old == 0 then
    return
  end
  -- Tombstones stand before them. Another part each time.
  local from = redis.call('ZCOUNT', KEYS[2], '-inf', '(0') + now % math.max(old - 19, 1)
  local some = redis.call('ZRANGE', KEYS[2], whole(from), whole(from + math.min(old, 20) - 1))
  for i, count in ipairs(hearers(some)) do
    if count == 0 and some[i] ~= self then
      redis.call('ZREM', KEYS[2], some[i])
    end
  end
end

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
    drop_old(member)
  end
  -- Longer than the longest time between two checks of a waiter; a tombstone may need
  -- the queue for longer. With some more, so that few enqueues have to set it.
  if redis.call('PTTL', KEYS[2]) < 60000 then
    redis.call('PEXPIRE', KEYS[2], 70000)
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. whole(-now), '(0')
  return score
end

-- Where a waiter stands: how many are before it, and itself. Who is dead at the head does not count.
local function rank(member, score)
  local n = redis.call('ZCOUNT', KEYS[2], '0', whole(score))
  if n > 1 and is_dead(first_waiter()) then
    n = n - dead_ahead(100, member)
  end
  return math.max(n, 1)
end
