-- prolong.lua: makes a lock last longer.

-- Makes the lock last for at least ttl ms, and returns how long it lasts. It writes even if the lock lasts long enough: WAIT
-- waits only for the writes of its own connection.
local function prolong(ttl)
  local pttl = math.max(redis.call('PTTL', KEYS[1]), ttl)
  -- mutants: prolong
  redis.call('PEXPIRE', KEYS[1], pttl)
  return pttl
end
