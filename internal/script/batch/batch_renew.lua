-- batch_renew.lua: renews the leases of many locks.
-- KEYS    the locks
-- ARGV    [1] flags; then 'hf2:TOKEN:FENCE:' of each lock; then TTL, ms, of all of them or, if they differ, of each
-- Returns 'kept NOW I ...'  all but the locks of these numbers last for the TTL. renew.lua tells what became of such a lock
-- Invariants: nothing shortens an expiry; a renewal creates nothing. A value that has no fence yet is given that of the grant.
-- requires request, answer

local function main()
  local values = redis.call('MGET', unpack(KEYS))
  local n, left = #KEYS, ''
  for i = 1, n do
    local value, granted = values[i], ARGV[1 + i]
    local ours = value and string.find(value, granted, 1, true) == 1
    if value and not ours then
      -- A lock that the server's own SET gave the token has no fence yet. If the server is out of memory, it gets that later.
      -- mutants: batch-renew-own
      local fresh = string.match(granted, '^hf2:[^:]*:') .. '0:'
      ours = string.find(value, fresh, 1, true) == 1
      if ours then
        -- mutants: batch-renew-fresh
        pcall(redis.call, 'SET', KEYS[i], granted .. string.sub(value, #fresh + 1), 'KEEPTTL')
      end
    end
    -- mutants: batch-renew-absent
    if not ours
      -- mutants: batch-prolong
      or redis.call('PEXPIRE', KEYS[i], ARGV[n + 1 + i] or ARGV[n + 2], 'GT') == 0 then
      left = left .. ' ' .. i
    end
  end
  return 'kept ' .. at .. left
end
