-- batch_release.lua: releases those of many locks that nobody waits for.
-- KEYS    the locks
-- ARGV    'hf2:TOKEN:' of each lock
-- Returns 'freed I ...'  all but the locks of these numbers were released. release.lua releases such a lock, hands it over, or tells why
--         it cannot
-- Invariants: only a token's own lock is touched; a lock that somebody waits for is not; after an error no lock was released.
-- requires answer

local function main()
  local values = redis.call('MGET', unpack(KEYS))
  local ours, left = {}, ''
  for i = 1, #KEYS do
    local value = values[i]
    -- mutants: batch-release-owner
    if value and string.find(value, ARGV[i], 1, true) == 1 and string.sub(value, -1) ~= '+' then
      ours[#ours + 1] = KEYS[i]
    else
      left = left .. ' ' .. i
    end
  end
  if #ours > 0 then
    redis.call('DEL', unpack(ours))
  end
  return 'freed' .. left
end
