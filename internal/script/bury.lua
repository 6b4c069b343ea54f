-- bury.lua: the tombstone of a token that was given up. A fragment; needs prelude.lua and
-- queue.lua.

-- Has the queue remember, until that server time (µs), that the token is over; or another
-- mark of its.
local function bury(until_time, mark)
  if until_time <= now then
    return
  end
  redis.call('ZADD', KEYS[2], whole(-until_time), mark or 'x:' .. token)
  local rest = math.ceil((until_time - now) / 1000)
  if redis.call('PTTL', KEYS[2]) < rest then
    redis.call('PEXPIRE', KEYS[2], rest)
  end
  settle()
end
