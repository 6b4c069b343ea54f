-- node_acquire.lua: acquires a lock on one node of a quorum, if it is free and nobody with an earlier ticket waits for it.
-- KEYS    [1] lock  [2] queue, for tombstones and tickets  [3] fence counter  [4] caught-up mark, node.lua  [5] incarnation mark
-- ARGV    [1] flags  [2] token  [3] TTL, ms  [4] not-after, server time in µs  [5] info
--         [6] ticket; '' for none, '0' for one that comes before all others  [7] for how many ms the ticket is kept
-- Returns 'granted NOW PTTL FENCE'     FENCE is this node's; it is stored in its counter
--         'held NOW PTTL AHEAD VALUE'  AHEAD is how many tickets come before this one
--         'wanted NOW AHEAD'           the lock is free, and is kept for those
--         'gone NOW', 'late NOW', 'quarantined NOW REST'  as acquire.lua
--         'behind NOW STANDS'          its counter has to be raised first: node_raise.lua
-- Invariants: fences of a node rise while it lives; if the request is sent twice, the second run replies with its fence; a ticket
-- only ever makes a node refuse.
-- requires prelude, grant, tombstone, node, answer

local ttl, not_after, info = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local ticket, ticket_time = ARGV[6], tonumber(ARGV[7])

-- A ticket is digits; of two tickets the later one is the greater text. The queue has it as 't:' and the ticket, scored like a tombstone
-- with the negated server time (µs) at which it ends. A ticket never grants anything: it only keeps the node from giving a free lock to a
-- later one. It stays after its owner was granted the lock, because the owner may miss the majority, give the lock back, and come again.

-- Returns how many tickets come before this one, of those among the first 1000 entries. All come before ''.
local function ahead()
  local n = 0
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. whole(-now), 'LIMIT', '0', '1000')) do
    if string.sub(member, 1, 2) == 't:' and (ticket == '' or string.sub(member, 3) < ticket) then
      n = n + 1
    end
  end
  return n
end

-- Keeps the ticket, if it can: a server that refuses writes still tells who holds the lock.
local function keep()
  if ticket ~= '' and ticket ~= '0' then
    pcall(remember, 't:' .. ticket, now + ticket_time * 1000)
  end
end

local function granted(pttl, fence)
  return 'granted ' .. at .. ' ' .. pttl .. ' ' .. whole(fence)
end

local function main()
  local refused = refusal()
  if refused then return refused end
  local value = redis.call('GET', KEYS[1])
  if is_mine(value) then return granted(prolong(ttl), tonumber(string.match(value, '^%d+', #mine + 1))) end
  if redis.call('ZSCORE', KEYS[2], 'x:' .. token) then return 'gone ' .. at end
  if now >= not_after then return 'late ' .. at end
  local before = ahead()
  keep()
  if value then return 'held ' .. at .. ' ' .. redis.call('PTTL', KEYS[1]) .. ' ' .. before .. ' ' .. value end
  -- mutants: ticket-kept
  if before > 0 then return 'wanted ' .. at .. ' ' .. before end
  -- The time counts only if there is no counter: otherwise the fences of nodes whose clocks differ would drift apart.
  local fence = (read_counter() or now) + 1
  raise_to(fence)
  redis.call('SET', KEYS[1], new_value(token, fence, '0', info, false), 'PX', ttl)
  return granted(ttl, fence)
end
