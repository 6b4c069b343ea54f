-- share_renew.lua: renews a hold.
-- KEYS    [1] lock  [2] index of holds; or, if fences are wanted, and in Strict mode, [1] lock  [2] queue  [3] fence counter
--         [4] index of holds
-- ARGV    [1] flags  [2] token  [3] TTL, ms  [4] fences wanted, or 0  [5] the fence of the grant
-- Returns 'renewed NOW PTTL FENCE BLOCK'  the first fence and how many there are
--         'gone NOW', 'absent NOW'        the hold does not exist; others have the lock, or nobody has it
--         'superseded NOW'                share_disown.lua or latch_reset.lua has ended the hold
--         'quarantined NOW REST'          Strict mode: nothing is renewed for so many ms
-- Invariants: nothing shortens an expiry; a renewal creates nothing; it works when the server is out of memory.
-- requires prelude, mint, shares, incarnation, answer

local ttl, block = tonumber(ARGV[3]), tonumber(ARGV[4])

local function main()
  local rest, others = quarantine()
  if rest > 0 and others then
    -- The old master may have let the lease expire and granted another.
    return quarantined(rest)
  end
  local hold = load_own()
  if not hold or string.match(hold, '^%d+:%d+:(%d+):') ~= ARGV[5] then
    on_master()
    return missing()
  end
  return renewed(prolong_hold(hold, ttl), block, mint)
end
