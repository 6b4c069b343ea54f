-- spread_release.lua: releases those of many locks of a Cluster's master that nobody waits for. The locks are in several
-- slots; spread_acquire.lua says how the server guards that.
--
-- KEYS    [1] the first lock
-- ARGV    of each lock its key and 'hf1:TOKEN:'
-- Returns 'freed REFUSED I ...'  all but the locks of these numbers were released. The server refused commands
--             of REFUSED of them. release.lua releases such a lock, hands it over, or tells why it cannot
--         an error: no lock was released
--
-- Invariants: only a token's own lock is touched; a lock that somebody waits for is not.

-- requires several_slots

local try, left, refused = redis.pcall, '', 0
for k = 1, #ARGV, 2 do
  local value, freed = try('GET', ARGV[k]), nil
  if type(value) == 'table' then
    freed = value
  -- mutants: spread-release-owner
  elseif value and string.find(value, ARGV[k + 1], 1, true) == 1 and string.sub(value, -1) ~= '+' then
    freed = try('DEL', ARGV[k])
  end
  if freed ~= 1 then
    left, refused = left .. ' ' .. (k + 1) / 2, type(freed) == 'table' and refused + 1 or refused
  end
end
return 'freed ' .. refused .. left
