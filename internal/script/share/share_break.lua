-- share_break.lua: takes a lock that several may hold from all holders with that fence, and serves the waiters. It is
-- break.lua for such locks.
--
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds, outside Cluster mode [5] journal, in Strict mode the
--         last: incarnation mark
-- ARGV    [1] flags as in prelude.lua  [2] names the request  [3] FENCE of the grant  [4] not-after, server time in µs
--         [5] the kind of the lock  [6] a note  [7] the channel of the journal
-- Returns 'broken NOW RAISED', a line feed and 'PTTL WEIGHT VALUE', of one of the holds that were ended, as break.lua
--         'changed NOW PTTL WAITERS VALUE'  others hold the lock; VALUE as of one of their holds, WAITERS is 0
--         'free NOW'           nobody has the lock
--         'late NOW'           not-after has come: nothing was done
--         'error MESSAGE'      AGAIN if there are more than one call may end: some have been
--
-- Invariants: as break.lua. To a latch or a barrier, a party that was broken has died.

-- requires prelude
-- requires mint
-- requires queue
-- requires parties
-- requires shares
-- requires share_sample
-- requires serve_or_notify
-- requires breaking
-- requires answer

-- Returns the tokens of holds that have that fence, as many as a script may remove, and the holds.
local function with_fence()
  complete_index()
  local tokens, found = {}, {}
  local all = redis.call('ZRANGEBYSCORE', expiries, '0', '+inf')
  for i = 1, #all, 200 do
    local last = math.min(i + 199, #all)
    for j, hold in ipairs(redis.call('HMGET', KEYS[1], unpack(all, i, last))) do
      -- mutants: share-break-compare
      if hold and string.match(hold, '^%d+:%d+:(%d+):') == broken_fence then
        tokens[#tokens + 1], found[#found + 1] = all[i + j - 1], hold
        if #tokens == most_removed then
          return tokens, found
        end
      end
    end
  end
  return tokens, found
end

-- Writes a hold as status.lua does, without its token.
local function line(hold)
  local expiry, weight, fence, granted, info = string.match(hold, '^(%d+):(%d+):(%d+):(%d+):(.*)$')
  return whole(math.floor((expiry - now) / 1000)) .. ' ' .. weight .. ' ' .. lock_value('hf1:-:', fence, granted, '0', info)
end

local function main()
  load()
  local reply = replied_before()
  if reply then
    return nothing('broken ' .. whole(now) .. ' ' .. reply)
  elseif now >= not_after then
    return nothing('late ' .. whole(now))
  elseif holds == 0 then
    return nothing('free ' .. whole(now))
  end
  insist()
  local tokens, found = with_fence()
  if #tokens == 0 then
    local pttl, value = sample()
    return nothing('changed ' .. whole(now) .. ' ' .. (pttl or 0) .. ' 0 ' .. (value or 'hf1:-:0:0:0:'))
  end
  prepare(KEYS[5])
  for i, hold in ipairs(found) do
    dismiss(tokens[i], hold)
    refuse_late(tokens[i], math.ceil((parse_hold(hold) - now) / 1000))
  end
  depart(kind, #tokens, 'died', info_of(found[1]))
  redis.call('ZREM', expiries, unpack(removed))
  removed = {}
  if #tokens == most_removed and used > 0 then
    ask_again()
  end
  reply = record_break(mint(1), line(found[1]), KEYS[5])
  pcall(serve_or_notify)
  tidy()
  return reply
end

return answer(main)
