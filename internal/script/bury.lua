-- bury.lua: the tombstone of a token that was given up. A fragment; needs prelude.lua and
-- queue.lua.

-- Has the queue remember something until that server time (µs).
local function remember(what, until_time)
  -- mutants: tombstone
  if until_time <= now then
    return
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. whole(-now), '(0')
  redis.call('ZADD', KEYS[2], whole(-until_time), what)
  local rest = math.ceil((until_time - now) / 1000)
  if redis.call('PTTL', KEYS[2]) < rest then
    redis.call('PEXPIRE', KEYS[2], rest)
  end
  settle()
end

-- Has it remember that the token is over.
local function bury(until_time)
  remember('x:' .. token, until_time)
end
