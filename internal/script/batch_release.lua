-- batch_release.lua: gives up those of many locks for which nobody waits.
--
-- KEYS    the locks
-- ARGV    of each 'hf1:TOKEN:'
-- Returns 'freed I ...'    all but those of these numbers: release.lua gives them up, hands
--             them over, or tells why it cannot
--         'error MESSAGE'  none was given up
--
-- Invariants: only a token's own lock is touched; a lock that is waited for is not.
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

-- include message.lua
-- include answer.lua
