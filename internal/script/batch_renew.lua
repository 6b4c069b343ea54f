-- batch_renew.lua: makes leases of many locks last longer.
--
-- KEYS    the locks
-- ARGV    [1] flags as in basics.lua; of each 'hf1:TOKEN:FENCE:'; TTL, ms, of all of them, or,
--         where they differ, of each
-- Returns 'kept NOW I ...'  all but those of these numbers last for the TTL: renew.lua tells what
--             is with them
--         'error MESSAGE'   some may last longer now
--
-- Invariants: nothing shortens an expiry; a renewal creates nothing.

-- include basics.lua

local function main()
  local values = redis.call('MGET', unpack(KEYS))
  local n, left = #KEYS, ''
  for i = 1, n do
    local value = values[i]
    -- mutants: batch-renew-absent
    if not value or string.find(value, ARGV[1 + i], 1, true) ~= 1
      -- mutants: batch-prolong
      or redis.call('PEXPIRE', KEYS[i], ARGV[n + 1 + i] or ARGV[n + 2], 'GT') == 0 then
      left = left .. ' ' .. i
    end
  end
  return 'kept ' .. at .. left
end

-- include answer.lua
