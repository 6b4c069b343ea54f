-- node_batch_acquire.lua: takes those of many locks, on one node of a quorum, that are free.
--
-- KEYS    the locks, then their queues, for tombstones, then what node_acquire.lua has: of one lock
--         [1] lock  [2] queue  [3] fence counter  [4] caught up, node.lua  [5] incarnation mark
-- ARGV    as of batch_acquire.lua: [1] flags as in basics.lua  [2] not-after, server time in µs; of
--         each 'hf1:TOKEN:'; TTL, ms, and info of all of them; or, where they differ, all TTLs,
--         then all infos
-- Returns 'taken NOW FENCE I ...'  all but those of these numbers; the lock i has the fence
--             FENCE + i - 1 of this node. node_acquire.lua tells why the others were not
--         'quarantined NOW REST', 'behind NOW STANDS'  none was taken: as node_acquire.lua
--         'error MESSAGE'                              none was taken
--
-- Invariants: what node_acquire.lua grants, and nothing else: what it refuses for the node's sake is
-- refused to all; fences of a node rise while it lives, and a grant is written after its fence;
-- nobody passes a tombstone.

-- include basics.lua
-- include incarnation.lua
-- include node.lua

local n = (#KEYS - 3) / 2

-- include many.lua

local function main()
  -- What is missing here, or of another type, is read again by itself, which tells the two apart.
  local known = redis.call('MGET', counter, caught_up, KEYS[#KEYS])
  local refused = refusal(known[3], known[2])
  -- mutants: node-batch-refused
  if refused then
    return refused
  end
  local which, count = free()
  local fence = 0
  if count > 0 then
    -- mutants: node-batch-fence
    fence = (read_counter(known[1]) or now) + 1
    store_counter(fence + n - 1)
  end
  return take(which, fence, n)
end

-- include answer.lua
