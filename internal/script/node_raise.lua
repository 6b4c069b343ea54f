-- node_raise.lua: raises the fence counter of a node of a quorum to what a majority of the
-- others has, after which it may grant.
--
-- KEYS    [1] any  [2] any  [3] fence counter  [4] caught up, node.lua  [5] incarnation mark
-- ARGV    [1] flags as in prelude.lua  [2] any token  [3] counter
--         [4] how the node stood when it was behind, as it said before the others were read
-- Returns 'raised NOW COUNTER'
--         'behind NOW STANDS'  it has lost its data again since
--         'quarantined NOW REST'  as node_acquire.lua
--         'error MESSAGE'

-- include prelude.lua
-- include incarnation.lua
-- include node.lua

local function main()
  local rest, _, id = quarantine()
  if rest > 0 then
    return resting(rest)
  end
  local stands = standing(id)
  if stands ~= id and stands ~= ARGV[4] then
    return behind(stands)
  end
  -- Where none has a counter yet, the first fence is made of the time.
  local known = tonumber(ARGV[3])
  -- mutants: raise-counter
  local counter = known > 0 and raise_counter(known) or read_counter() or 0
  redis.call('SET', caught_up, id)
  return 'raised ' .. whole(now) .. ' ' .. whole(counter)
end

-- include answer.lua
