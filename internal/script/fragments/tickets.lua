-- tickets.lua: the order of those who wait for a lock of a quorum.
-- A ticket is digits; of two tickets the later one is the greater text. The queue has it as 't:' and the ticket, scored like a tombstone
-- with the negated server time (µs) at which it ends. A ticket never grants anything: it only keeps the node from giving a free lock to a
-- later one. It stays after its owner was granted the lock, because the owner may miss the majority, give the lock back, and come again.
-- requires prelude, tombstone

-- How many tickets a script looks at.
local most_tickets = 1000

-- Returns how many tickets come before this one. They all come before ''.
local function ahead(ticket)
  local n = 0
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. whole(-now), 'LIMIT', '0', most_tickets)) do
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
