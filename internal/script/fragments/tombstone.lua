-- tombstone.lua: entries of a queue that outlive the request that left them.
-- requires prelude, waiters

-- Keeps an entry in the queue until that server time (µs).
local function remember(what, until_time)
  -- mutants: tombstone
  if until_time <= now then return end
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. whole(-now), '(0')
  redis.call('ZADD', KEYS[2], whole(-until_time), what)
  last_for(KEYS[2], math.ceil((until_time - now) / 1000))
  settle()
end

-- Leaves a tombstone: the caller's token has ended, and an acquire of it that arrives late is refused.
local function leave_tombstone(until_time)
  remember('x:' .. token, until_time)
end
