-- queue.lua: those who wait for a lock. A fragment; needs prelude.lua.
--
-- A waiter's member of the queue: TOKEN \n CLAIM \n CHANNEL \n INFO, where CLAIM is
-- the time in ms for which it gets the lock before it must have renewed it.
-- INFO begins with WEIGHT \n where several may hold the lock (shares.lua).

-- The first n of those who wait.
local function waiters(n)
  -- mutants: waiters-in-order
  return look_at('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', n) or {}
end

local function first_waiter()
  return waiters(1)[1]
end

local function waiter(member)
  return string.match(member, '^([^\n]*)\n(%d+)\n([^\n]*)\n(.*)$')
end

-- Lets a queue without waiters end with its last tombstone, not long after it.
local function settle()
  local last = (look_at('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES') or {})[2]
  if last and not first_waiter() then
    -- 0 is the first: math.ceil gives -0 for one that ended just now, which is not a number to the server.
    redis.call('PEXPIRE', KEYS[2], math.max(0, math.ceil((-last - now) / 1000)))
  end
end

-- How many connections hear this channel on this node. PUBLISH's own count has
-- pattern subscribers in it.
local function receivers(channel)
  return redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
end

local function send(channel, text)
  return redis.call(cluster and 'SPUBLISH' or 'PUBLISH', channel, text)
end

-- Tells a waiter when to look for itself: due is the server's time in µs.
local function stand_by(member, due)
  local ok, owner, _, channel = pcall(waiter, member)
  if ok and owner then
    pcall(send, channel, 'hf1 standby ' .. owner .. ' ' .. whole(now) .. ' ' .. whole(due))
  end
end

