-- node_acquire.lua: takes a lock on one node of a quorum, if it is free.
--
-- KEYS    [1] lock  [2] queue, for tombstones  [3] fence counter  [4] caught up, node.lua
--         [5] incarnation mark
-- ARGV    [1] flags as in prelude.lua  [2] token  [3] TTL, ms
--         [4] not-after, server time in µs  [5] info
-- Returns 'granted NOW PTTL FENCE'   FENCE is this node's; it is stored in its counter
--         'held NOW PTTL WAITERS VALUE'
--         'gone NOW', 'late NOW', 'quarantined NOW REST': as acquire.lua
--         'behind NOW STANDS'  its counter has to be raised first: node_raise.lua
--         'error MESSAGE': nothing was taken
--
-- Invariants: fences of a node rise while it lives; sent twice, the second run gives the first
-- one's fence.

-- include prelude.lua
-- include incarnation.lua
-- include node.lua

local ttl, not_after, info = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

local function granted(pttl, fence)
  return 'granted ' .. whole(now) .. ' ' .. pttl .. ' ' .. whole(fence)
end

local function main()
  local refused = refusal()
  if refused then
    return refused
  end
  local value = redis.call('GET', KEYS[1])
  if value and string.sub(value, 1, #mine) == mine then
    return granted(prolong(ttl), tonumber(string.match(value, '^%d+', #mine + 1)))
  elseif redis.call('ZSCORE', KEYS[2], 'x:' .. token) then
    return 'gone ' .. whole(now)
  elseif now >= not_after then
    return 'late ' .. whole(now)
  elseif value then
    return 'held ' .. whole(now) .. ' ' .. redis.call('PTTL', KEYS[1]) .. ' 0 ' .. value
  end
  -- The time only where there is no counter: fences of nodes whose clocks differ would drift
  -- apart otherwise.
  local fence = (read_counter() or now) + 1
  store_counter(fence)
  redis.call('SET', KEYS[1], mine .. whole(fence) .. ':' .. string.sub(at, 1, -4) .. ':0:' .. info, 'PX', ttl)
  return granted(ttl, fence)
end

-- include answer.lua
