-- tickets.lua: the order of those who wait for a lock of a quorum. A fragment; needs prelude.lua,
-- queue.lua and bury.lua.
--
-- A ticket is digits: the later one is the greater text. It is in the queue as 't:' and the ticket, and
-- its score is that of a tombstone: the negated server time (µs) at which it ends. A ticket never
-- grants anything: it only keeps the node from giving a free lock to a later one. It stays when its owner is
-- granted the lock, who may have to give it back for want of a majority, and come again.

-- At most so many are looked at.
local most = 1000

-- How many tickets come before this one. Without a ticket all do.
local function ahead(ticket)
  local n = 0
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. whole(-now), 'LIMIT', '0', most)) do
    if string.sub(member, 1, 2) == 't:' and (ticket == '' or string.sub(member, 3) < ticket) then
      n = n + 1
    end
  end
  return n
end

-- Keeps the ticket for so many ms, if it can: a server that refuses writes still tells who holds the lock.
local function keep(ticket, ms)
  if ticket ~= '' and ticket ~= '0' then
    pcall(remember, 't:' .. ticket, now + ms * 1000)
  end
end
