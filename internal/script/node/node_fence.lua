-- node_fence.lua: tells a node of a quorum the fence of a grant, while the lock is still the token's.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] caught-up mark, node.lua  [5] incarnation mark
-- ARGV    [1] flags  [2] token  [3] fence
-- Returns 'fenced NOW PTTL'   the counter is at least the fence
--         'gone NOW'          the lock is not the token's
--         'quarantined NOW REST', 'behind NOW STANDS'  as node_acquire.lua
-- Invariants: a node that restarted since it granted does not count.
-- requires prelude, node, answer

local function main()
  local refused = refusal()
  if refused then return refused end
  local value = redis.call('GET', KEYS[1])
  -- mutants: node-fence-owner
  if not is_mine(value) then return 'gone ' .. at end
  raise_counter(tonumber(ARGV[3]))
  return 'fenced ' .. at .. ' ' .. redis.call('PTTL', KEYS[1])
end
