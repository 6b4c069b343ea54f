-- prolong.lua: makes a lock last longer.

-- Makes the lock last for at least ttl ms, and returns how long. It writes in any case: WAIT waits only for its own connection's writes.
local function prolong(ttl)
  local pttl = math.max(redis.call('PTTL', KEYS[1]), ttl)
  -- mutants: prolong
  redis.call('PEXPIRE', KEYS[1], pttl)
  return pttl
end
