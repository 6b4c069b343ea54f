-- queue.lua: waiters that are dead, and messages to those that are alive. A waiter is alive if its channel has a receiver.
-- requires prelude, waiters, channel

-- How many dead waiters, or expired holds (shares.lua), a script removes. While it runs, every other client of the server waits.
local most_removed = 500

-- Ends a script that has removed that many and done nothing else. Its client sends it again.
local function ask_again()
  error('AGAIN there is more to clear away first', 0)
end

-- Returns how many connections hear each of those members; none for one that is no waiter's.
local function hearers(members)
  local channels, counts = {}, {}
  for i, member in ipairs(members) do
    local _, _, channel = parse_waiter(member)
    channels[i] = channel or ''
  end
  local reply = channels[1] and redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', unpack(channels)) or {}
  for i = 1, #channels do
    counts[i] = reply[2 * i]
  end
  return counts
end

-- Returns how many of the first n waiters are dead before one that is alive or is self, and those n.
local function dead_ahead(n, self)
  local first = waiters(n)
  for i, count in ipairs(hearers(first)) do
    if count > 0 or first[i] == self then return i - 1, first end
  end
  return #first, first
end

-- Tells a waiter when to look. due is a server time in µs.
local function notify(member, due)
  local ok, waiter_token, _, channel = pcall(parse_waiter, member)
  if ok and waiter_token then
    pcall(send, channel, 'hf2 standby ' .. waiter_token .. ' ' .. at .. ' ' .. whole(due))
  end
end

-- Reports whether that waiter is known to be dead. count is how many connections hear its channel, if that is known already.
local function is_dead(member, count)
  local ok, counts = true, { count }
  if not count then ok, counts = pcall(hearers, { member }) end
  -- mutants: known-dead
  return ok and counts[1] == 0
end

-- Reports whether every waiter before that one is dead.
local function leads(member)
  local first = first_waiter()
  if not first or first == member or not is_dead(first) then return first == member end
  local n, ahead = dead_ahead(100, member)
  return ahead[n + 1] == member
end

-- Returns the latest waiter that is alive, or nil.
local function latest_alive()
  local latest = look_at('ZRANGE', KEYS[2], '-100', '-1') or {}
  local counts = hearers(latest)
  for i = #latest, 1, -1 do
    if counts[i] > 0 then return latest[i] end
  end
end

-- Returns the first waiter that is alive. first is the first of all, and count is as in is_dead. If a hundred are dead before it, the
-- latest that is alive does as well: whoever looks serves the first.
local function first_alive(first, count)
  if not is_dead(first, count) then return first end
  local n, ahead = dead_ahead(100)
  return ahead[n + 1] or latest_alive()
end

-- Tells the first waiter that is alive when to look. first is the first of all, and count is as in is_dead.
local function stand_by(first, due, count)
  local ok, member = pcall(first_alive, first, count)
  notify(ok and member or first, due)
end

-- Removes the dead waiters at the head of the queue. If there are too many, it ends the script, and tells a live waiter to look: a release
-- is not sent again for their sake.
local function drop_dead(self)
  for _ = 1, most_removed, 100 do
    local n, first = dead_ahead(100, self)
    if n > 0 then
      redis.call('ZREM', KEYS[2], unpack(first, 1, n))
    end
    if n < 100 then return end
  end
  if dead_ahead(1, self) > 0 then
    local latest = latest_alive()
    if latest then
      notify(latest, now)
    end
    ask_again()
  end
end
