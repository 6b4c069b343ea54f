-- batch_renew.lua: renews the leases of many locks.
--
-- KEYS    the locks
-- ARGV    [1] flags as in request.lua; then 'hf1:TOKEN:FENCE:' of each lock; then TTL, ms, of all of
--         them or, if they differ, of each
-- Returns 'kept NOW I ...'  all but the locks of these numbers last for the TTL. renew.lua tells
--             what became of such a lock
--         'error MESSAGE'   some may last longer now
--
-- Invariants: nothing shortens an expiry; a renewal creates nothing.

-- requires request
-- requires answer

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

return answer(main)
