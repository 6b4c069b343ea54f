-- share_break.lua: is break.lua for a lock that several may hold: it ends the hold with that grant id, and serves the waiters.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds, outside Cluster mode [5] journal
-- ARGV    [1] flags  [2] id of the request  [3] GRANT, the id of the grant  [4] not-after, server time in µs
--         [5] the kind of the lock  [6] a note  [7] the channel of the journal
-- Returns 'broken NOW RAISED', a line feed and 'PTTL WEIGHT VALUE', as break.lua. RAISED is above the fences of all grants until then.
--             Readers that join others, and an owner's later leases, get the fence of those that are there
--         'changed NOW PTTL WAITERS VALUE'  others hold the lock; VALUE as of one of their holds, WAITERS is 0
--         'free NOW', 'late NOW'            as break.lua
-- Invariants: as break.lua. A broken party of a latch or a barrier counts as dead.
-- requires prelude, mint, queue, parties, shares, serve_or_notify, breaking, answer

-- Returns the token and the hold that are meant; nil if nobody has that grant.
local function the_meant()
  complete_index()
  for _, hold_token in ipairs(redis.call('ZRANGEBYSCORE', expiries, '0', '+inf')) do
    -- mutants: share-break-compare
    local hold = is_meant(hold_token) and live(redis.call('HGET', KEYS[1], hold_token))
    if hold then return hold_token, hold end
  end
end

local function main()
  load()
  local reply = replied_before()
  if reply then return refuse('broken', reply) end
  if now >= not_after then return refuse('late') end
  if holds == 0 then return refuse('free') end
  insist()
  local hold_token, hold = the_meant()
  if not hold then return refuse('changed', some_hold(0)) end
  local expiry, weight, fence, granted, info = parse_hold(hold)
  fence = whole(fence)
  prepare(fence, KEYS[5])
  local described = whole(weight) .. ' ' .. lock_value('hf2:' .. broken_grant .. ':', fence, granted, '0', info)
  reply = record_break(hold_token, fence, math.floor((expiry - now) / 1000), described, KEYS[5])
  dismiss(hold_token, weight)
  depart(kind, 1, 'died', info)
  pcall(serve_or_notify)
  tidy()
  return reply
end
