-- share_disown.lua: ends one hold of an owned lock for its owner, whichever token the hold has. It ends the one that would expire first,
-- which most likely belongs to a process that is gone.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds
-- ARGV    [1] flags  [2] a token for this request  [3] the owner's id  [4] not-after, server time in µs
-- Returns 'released NOW LEFT'  the owner has so many holds left
--         'held NOW PTTL WAITERS VALUE'  another owner has it; VALUE as of one of its holds
--         'free NOW', 'late NOW'         nobody has it; not-after has come: nothing was done
-- Invariants: another owner's holds are not touched. If the request is sent twice, at most one hold is ended: until not-after the
-- queue has an entry of the request's token, written before anything else. The hold's client is told that it was ended on purpose.
-- requires prelude, shares, tombstone, serve_or_notify, answer

local owner, not_after = ARGV[3], tonumber(ARGV[4])

-- Returns the token and the hold that expires first.
local function soonest()
  complete_index()
  while true do
    local hold_token = redis.call('ZRANGEBYSCORE', expiries, '0', '+inf', 'LIMIT', '0', '1')[1]
    local hold = hold_token and redis.call('HGET', KEYS[1], hold_token)
    if not hold_token or hold then return hold_token, hold end
    redis.call('ZREM', expiries, hold_token)
  end
end

-- The entry of a request that ended nothing.
local nothing = 'x:' .. token .. ':nothing'

local function released()
  return 'released ' .. at .. ' ' .. whole(owned_by(owner) and used or 0)
end

local function main()
  load('own')
  if redis.call('ZSCORE', KEYS[2], 'x:' .. token) then
    on_master()
    return released()
  end
  if redis.call('ZSCORE', KEYS[2], nothing) then return refuse('free') end
  if now >= not_after then return refuse('late') end
  if used == 0 then
    remember(nothing, not_after)
    return 'free ' .. at
  end
  if not owned_by(owner) then
    remember(nothing, not_after)
    return 'held ' .. at .. ' ' .. some_hold(redis.call('ZCOUNT', KEYS[2], '0', '+inf'))
  end
  insist()
  leave_tombstone(not_after)
  local ended, hold = soonest()
  local expiry, weight = parse_hold(hold)
  dismiss(ended, weight)
  -- Of holds that would have expired by now, nobody asks.
  redis.call('ZREMRANGEBYSCORE', expiries, '(' .. whole(-now), '(0')
  -- mutants: superseded-noted
  redis.call('ZADD', expiries, whole(-expiry), 's:' .. ended)
  local reply = released()
  pcall(serve_or_notify)
  tidy()
  return reply
end
