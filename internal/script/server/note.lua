-- note.lua: writes an entry of the journal: that a holder is asked to let go or, in Cluster mode, that a lock was broken.
-- KEYS    [1] journal
-- ARGV    [1] flags  [2] id of the request  [3] the channel of the journal  [4] WHAT  [5] GRANT  [6] FENCE  [7] RAISED  [8] KIND  [9] KEY
--         [10] NOTE  [11] PTTL WEIGHT VALUE, or '', as in journal.lua
-- Returns 'noted NOW'
-- Invariants: sent twice, it leaves one entry.
-- requires request, journal, answer

local function main()
  write_journal(KEYS[1], ARGV[4], ARGV[2], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11])
  announce(ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[9], ARGV[10])
  return 'noted ' .. at
end
