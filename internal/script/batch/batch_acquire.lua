-- batch_acquire.lua: acquires those of many locks that are free and that nobody waits for.
--
-- KEYS    the locks, then their queues, then the fence counter; for one lock, as for acquire.lua,
--         [1] lock  [2] queue  [3] fence counter
-- ARGV    [1] flags as in request.lua  [2] not-after, server time in µs; then 'hf1:TOKEN:' of each
--         lock; then TTL, ms, and info of all of them or, if they differ, all TTLs and then all
--         infos; for one lock [3] 'hf1:TOKEN:'  [4] TTL, ms  [5] info
-- Returns 'taken NOW FENCE I ...'  all but the locks of these numbers were acquired; lock i has the
--             fence FENCE + i - 1. acquire.lua tells why a lock was not acquired, and answers a
--             token that has its lock already
--         'error MESSAGE', or an error: no lock was acquired
--
-- Invariants: it acquires what acquire.lua would grant at once, and nothing else; a grant is written
-- after its fence; nobody passes a waiter or a tombstone.

-- requires batch_acquire_one
-- requires batch_acquire_many
-- requires mint
-- requires answer

local n = (#KEYS - 1) / 2
counter = KEYS[#KEYS]

local function main()
  local which, count = find_free(n)
  local fence, minted = 0, 0
  if count > 0 then
    -- mutants: batch-mint
    fence, minted = mint(n)
  end
  return take_free(n, which, fence, minted)
end

return answer(main)
