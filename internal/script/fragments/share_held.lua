-- share_held.lua: the reply that others hold a lock that several may hold.
-- requires shares, value

-- Returns 'PTTL WAITERS VALUE' of a recent hold or the one that lasts longest, for people; if there is none, VALUE is 'hf2:-:0:0:0:'.
local function some_hold(waiters)
  local hold_token = redis.call('HGET', KEYS[1], 'last')
  local hold = hold_token and redis.call('HGET', KEYS[1], hold_token)
  if not hold then
    hold_token = redis.call('ZRANGE', expiries, '-1', '-1')[1]
    hold = hold_token and redis.call('HGET', KEYS[1], hold_token)
  end
  if not hold then return '0 ' .. waiters .. ' hf2:-:0:0:0:' end
  local expiry, _, fence, granted, info = parse_hold(hold)
  return math.floor((expiry - now) / 1000) .. ' ' .. waiters .. ' ' .. lock_value('hf2:' .. hold_token .. ':', whole(fence), granted, '0', info)
end
