-- node_counter.lua: reads the fence counter of a node of a quorum.
-- KEYS    [1] any  [2] any  [3] fence counter  [4] caught-up mark, node.lua  [5] incarnation mark
-- ARGV    [1] flags  [2] any token
-- Returns 'counter NOW COUNTER'        the node has lost nothing since it began to grant
--         'behind NOW COUNTER STANDS', 'quarantined NOW REST'  as node_acquire.lua; COUNTER is 0 if there is none
-- requires node, answer

local function main()
  local refused, stands = refusal()
  if stands then return behind(whole(read_counter() or 0) .. ' ' .. stands) end
  if refused then return refused end
  return 'counter ' .. at .. ' ' .. whole(read_counter() or 0)
end
