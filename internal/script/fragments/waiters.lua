-- waiters.lua: the waiters in the queue of a lock.
-- A waiter's member is TOKEN \n CLAIM \n CHANNEL \n INFO. CLAIM is the time in ms for which a grant that is pushed to it lasts unless it
-- renews; it is CLAIM@BY if the waiter promises to look at the server time BY, in ms (pass_on.lua). INFO begins with WEIGHT \n if several
-- may hold the lock (shares.lua).
-- requires prelude

-- Returns the first n waiters.
local function waiters(n)
  -- mutants: waiters-in-order
  return look_at('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', n) or {}
end

local function first_waiter()
  return waiters(1)[1]
end

-- Splits a member into token, claim, channel and info; nil if it is no waiter's.
local function parse_waiter(member)
  return string.match(member, '^([^\n]*)\n(%d+)@?%d*\n([^\n]*)\n(.*)$')
end

-- Lets a queue without waiters expire with its last tombstone.
local function settle()
  local last = (look_at('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES') or {})[2]
  if last and not first_waiter() then
    -- 0 comes first, because math.ceil gives -0 for a tombstone that ended just now, which the server does not take for a number.
    redis.call('PEXPIRE', KEYS[2], math.max(0, math.ceil((-last - now) / 1000)))
  end
end
