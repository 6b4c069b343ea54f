-- spread_renew.lua: renews the leases of many locks of a Cluster's master. The locks are in several slots;
-- spread_acquire.lua says how the server guards that.
--
-- KEYS    [1] the first lock
-- ARGV    [1] flags as in request.lua  [2] TTL, ms, of all locks, or '' if they differ; then of each lock its
--         key and 'hf1:TOKEN:FENCE:', and the TTL if they differ
-- Returns 'kept NOW REFUSED I ...'  all but the locks of these numbers last for the TTL. The server refused
--             commands of REFUSED of them. renew.lua tells what became of such a lock
--         an error: no lock lasts longer
--
-- Invariants: nothing shortens an expiry; a renewal creates nothing.

-- requires several_slots
-- requires request

local try, left, refused, i = redis.pcall, '', 0, 0
local all_ttl = ARGV[2]
for k = 3, #ARGV, all_ttl == '' and 3 or 2 do
  i = i + 1
  local value, kept = try('GET', ARGV[k]), nil
  if type(value) == 'table' then
    kept = value
  -- mutants: spread-renew-owner
  elseif value and string.find(value, ARGV[k + 1], 1, true) == 1 then
    -- mutants: spread-prolong
    kept = try('PEXPIRE', ARGV[k], all_ttl == '' and ARGV[k + 2] or all_ttl, 'GT')
  end
  -- mutants: spread-kept
  if kept ~= 1 then
    left, refused = left .. ' ' .. i, type(kept) == 'table' and refused + 1 or refused
  end
end
return 'kept ' .. at .. ' ' .. refused .. left
