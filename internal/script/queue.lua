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

-- How many dead waiters a script removes at most, and how many holds that are over
-- (shares.lua): no other client waits longer than that takes.
local most = 500

-- Ends a script that has removed so many, and done nothing else. Whoever sent it sends it again.
local function again()
  error('AGAIN there is more to clear away first', 0)
end

-- How many hear each of those members of the queue, none those that are no waiters'.
local function hearers(members)
  local channels, counts = {}, {}
  for i, member in ipairs(members) do
    local _, _, channel = waiter(member)
    channels[i] = channel or ''
  end
  local reply = channels[1] and redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', unpack(channels)) or {}
  for i = 1, #channels do
    counts[i] = reply[2 * i]
  end
  return counts
end

-- How many of the first n waiters are dead, up to one that is not, or that is self; and who they are.
local function dead_ahead(n, self)
  local first = waiters(n)
  for i, count in ipairs(hearers(first)) do
    if count > 0 or first[i] == self then
      return i - 1, first
    end
  end
  return #first, first
end

-- Tells a waiter when to look for itself: due is the server's time in µs.
local function notify(member, due)
  local ok, owner, _, channel = pcall(waiter, member)
  if ok and owner then
    pcall(send, channel, 'hf1 standby ' .. owner .. ' ' .. whole(now) .. ' ' .. whole(due))
  end
end

-- Whether it is known that nobody hears that waiter.
local function is_dead(member)
  local ok, counts = pcall(hearers, { member })
  -- mutants: known-dead
  return ok and counts[1] == 0
end

-- Whether no waiter before that one is alive.
local function leads(member)
  local first = first_waiter()
  if not first or first == member or not is_dead(first) then
    return first == member
  end
  local n, ahead = dead_ahead(100, member)
  return ahead[n + 1] == member
end

-- The latest waiter that is alive, or nil.
local function latest_alive()
  local latest = look_at('ZRANGE', KEYS[2], '-100', '-1') or {}
  local counts = hearers(latest)
  for i = #latest, 1, -1 do
    if counts[i] > 0 then
      return latest[i]
    end
  end
end

-- The first waiter that is alive. first is the first of all. Where a hundred are dead before it, the
-- latest does as well: whoever looks serves the first.
local function first_alive(first)
  if not is_dead(first) then
    return first
  end
  local n, ahead = dead_ahead(100)
  return ahead[n + 1] or latest_alive()
end

-- Tells the first waiter that is alive when to look. first is the first of all.
local function stand_by(first, due)
  local ok, member = pcall(first_alive, first)
  notify(ok and member or first, due)
end

-- Removes the dead waiters at the head of the queue. Where they are too many it ends the script, and
-- has a live one go on: in a release, nobody else would.
local function drop_dead(self)
  for _ = 1, most, 100 do
    local n, first = dead_ahead(100, self)
    if n > 0 then
      redis.call('ZREM', KEYS[2], unpack(first, 1, n))
    end
    if n < 100 then
      return
    end
  end
  if dead_ahead(1, self) > 0 then
    local latest = latest_alive()
    if latest then
      notify(latest, now)
    end
    again()
  end
end
