-- batch_acquire.lua: takes those of many locks that are free, and for which nobody waits.
--
-- KEYS    the locks, then their queues, then the fence counter: of one lock, as for acquire.lua,
--         [1] lock  [2] queue  [3] fence counter
-- ARGV    [1] flags as in basics.lua  [2] not-after, server time in µs; of each 'hf1:TOKEN:';
--         TTL, ms, and info of all of them; or, where they differ, all TTLs, then all infos: of
--         one lock [3] 'hf1:TOKEN:'  [4] TTL, ms  [5] info
-- Returns 'taken NOW FENCE I ...'  all but those of these numbers; the lock i has the fence
--             FENCE + i - 1. acquire.lua tells why the others were not, and answers a token that
--             has its lock already
--         'error MESSAGE', or an error: none was taken
--
-- Invariants: what acquire.lua grants at once, and nothing else; a grant is written after its
-- fence; nobody passes a waiter or a tombstone.

-- include lone.lua
-- include basics.lua
-- include mint.lua

local n = (#KEYS - 1) / 2
counter = KEYS[#KEYS]

-- include many.lua

local function main()
  local which, count = free()
  local fence, minted = 0, 0
  if count > 0 then
    -- mutants: batch-mint
    fence, minted = mint(n)
  end
  return take(which, fence, minted)
end

-- include answer.lua
