-- share_held.lua: the reply that others hold a lock that several may hold.
-- requires share_sample

-- Returns the reply that others hold the lock.
local function held()
  local pttl, value = sample()
  return 'held ' .. whole(now) .. ' ' .. (pttl or 0) .. ' ' .. redis.call('ZCOUNT', KEYS[2], '0', '+inf') .. ' ' .. (value or 'hf2:-:0:0:0:')
end
