-- share_sample.lua: one of the holds of a lock that several may hold, for people.
-- requires shares, value

-- Returns for how many ms some hold lasts, and the hold as a mutex's value is written; nil if there is none. It is a recent hold,
-- or the one that lasts longest.
local function sample()
  local hold_token = redis.call('HGET', KEYS[1], 'last')
  local hold = hold_token and redis.call('HGET', KEYS[1], hold_token)
  if not hold then
    hold_token = redis.call('ZRANGE', expiries, '-1', '-1')[1]
    hold = hold_token and redis.call('HGET', KEYS[1], hold_token)
  end
  if not hold then
    return nil
  end
  local expiry, _, fence = parse_hold(hold)
  local granted, info = string.match(hold, '^%d+:%d+:%d+:(%d+):(.*)$')
  return math.floor((expiry - now) / 1000), lock_value('hf2:' .. hold_token .. ':', whole(fence), granted, '0', info)
end
