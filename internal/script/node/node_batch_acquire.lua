-- node_batch_acquire.lua: acquires those of many locks that are free, on one node of a quorum.
--
-- KEYS    the locks, then their queues, for tombstones, then as for node_acquire.lua; for one lock
--         [1] lock  [2] queue  [3] fence counter  [4] caught-up mark, node.lua  [5] incarnation mark
-- ARGV    as for batch_acquire.lua: [1] flags as in request.lua  [2] not-after, server time in µs; then
--         'hf1:TOKEN:' of each lock; then TTL, ms, and info of all of them or, if they differ, all TTLs and
--         then all infos; for one lock [3] 'hf1:TOKEN:'  [4] TTL, ms  [5] info
-- Returns 'taken NOW FENCE I ...'  all but the locks of these numbers were acquired; lock i has this
--             node's fence FENCE + i - 1. node_acquire.lua tells why a lock was not acquired
--         'quarantined NOW REST', 'behind NOW STANDS'  no lock was acquired: as node_acquire.lua
--         'error MESSAGE'                              no lock was acquired
--
-- Invariants: it acquires what node_acquire.lua would grant, and nothing else: what that refuses because of
-- the node is refused for all locks; fences of a node rise while it lives, and a grant is written after its
-- fence; nobody passes a tombstone.

-- requires node_batch_one
-- requires batch_acquire_many
-- requires node
-- requires answer

local n = (#KEYS - 3) / 2

local function main()
  -- What does not exist here, or has another type, is read again by itself, which tells the two apart.
  local known = redis.call('MGET', caught_up, KEYS[#KEYS])
  local refused = refusal(known[2], known[1])
  -- mutants: node-batch-refused
  if refused then
    return refused
  end
  local which, count = find_free(n)
  local fence = 0
  if count > 0 then
    -- mutants: node-batch-fence
    fence = (read_counter() or now) + 1
    raise_to(counter, fence + n - 1)
  end
  return take_free(n, which, fence, n)
end

return answer(main)
