-- node_raise.lua: raises the fence counter of a node of a quorum to that of a majority of the others, after which the node may grant.
-- KEYS    [1] any  [2] any  [3] fence counter  [4] caught-up mark, node.lua  [5] incarnation mark
-- ARGV    [1] flags  [2] any token  [3] counter  [4] STANDS of the reply that the node was behind, from before the others were read
-- Returns 'raised NOW COUNTER'
--         'behind NOW STANDS'     the node has lost its data again since
--         'quarantined NOW REST'  as node_acquire.lua
-- requires node, answer

local function main()
  local rest, _, id = quarantine()
  if rest > 0 then return quarantined(rest) end
  local stands = standing(id)
  if stands ~= id and stands ~= ARGV[4] then return behind(stands) end
  -- If no node has a counter yet, the first fence is made of the time.
  local known = tonumber(ARGV[3])
  -- mutants: raise-counter
  local raised = known > 0 and raise_counter(known) or read_counter() or 0
  redis.call('SET', caught_up, id)
  return 'raised ' .. at .. ' ' .. whole(raised)
end
