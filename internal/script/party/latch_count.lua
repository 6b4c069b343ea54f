-- latch_count.lua: counts down one party of a latch that has not joined it.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds
-- ARGV    [1] flags  [2] id of the count-down, as a token  [3] parties  [4] not-after, server time in µs
-- Returns 'counted NOW COUNT'  so many parties are left
--         'taken NOW COUNT'    all that are left have joined: nothing was counted
--         'late NOW'           not-after has come: nothing was counted
-- Invariants: sent twice, it counts once; if it was answered 'taken', or found the count at 0, a late copy does not count either, even
-- after a reset; the count is never below 0, nor below the number of parties that have joined.
-- requires prelude, parties, shares, tombstone, answer

local parties, not_after = tonumber(ARGV[3]), tonumber(ARGV[4])

local function main()
  -- mutants: counted-before
  local known = redis.call('ZSCORE', KEYS[2], 'd:' .. token)
  local refused = redis.call('ZSCORE', KEYS[2], 'x:' .. token)
  if not known and not refused and now >= not_after then return refuse('late') end
  load('latch', parties)
  -- mutants: seats-taken
  if refused or not known and seats > 0 and used >= seats then
    insist()
    leave_tombstone(not_after)
    return 'taken ' .. at .. ' ' .. whole(seats)
  elseif not known then
    insist()
    if seats > 0 then
      depart(kind, 1, 'done')
      seats = seats - 1
    end
    remember('d:' .. token, not_after)
  else
    touch_latch()
  end
  return 'counted ' .. at .. ' ' .. whole(seats)
end
