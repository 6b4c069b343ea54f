-- grant.lua: the value of a lock that is granted now, and how one that is held lasts longer.
-- requires request, value

-- marked says that somebody waits.
local function new_value(holder, fence, chain, info, marked)
  local value = lock_value('hf2:' .. holder .. ':', whole(fence), string.sub(at, 1, -4), chain, info)
  return marked and value .. '+' or value
end

-- Makes the lock last for at least ttl ms, and returns how long. It writes in any case: WAIT waits only for its own connection's writes.
local function prolong(ttl)
  local pttl = math.max(redis.call('PTTL', KEYS[1]), ttl)
  -- mutants: prolong
  redis.call('PEXPIRE', KEYS[1], pttl)
  return pttl
end
