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
--         'error MESSAGE'      nothing was done
--
-- Invariants: as break.lua. A broken party of a latch or a barrier counts as dead.

-- requires prelude
-- requires mint
-- requires queue
-- requires parties
-- requires shares
-- requires share_sample
-- requires serve_or_notify
-- requires breaking
-- requires answer

-- Returns the tokens of holds that have that fence, and the holds.
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
      end
    end
  end
  return tokens, found
end

-- Removes all of these holds, as dismiss of shares.lua does one, and leaves tombstones for their tokens.
local function dismiss_all(tokens, found)
  local marks, graves, last = {}, {}, 0
  for i, hold in ipairs(found) do
    local expiry, weight = parse_hold(hold)
    local ends = grave_until(math.ceil((expiry - now) / 1000))
    used, last = used - weight, math.max(last, ends)
    marks[i], removed[i] = '@' .. tokens[i], tokens[i]
    graves[2 * i - 1], graves[2 * i] = whole(-ends), 'x:' .. tokens[i]
  end
  holds = holds - #tokens
  if used == 0 then
    next_expiry, common_fence = 9e15, nil
  end
  in_parts('HDEL', KEYS[1], tokens)
  in_parts('HDEL', KEYS[1], marks)
  redis.call('HSET', KEYS[1], 'used', whole(used), 'holds', whole(holds), 'next', whole(next_expiry))
  in_parts('ZADD', KEYS[2], graves)
  local rest = math.ceil((last - now) / 1000)
  if redis.call('PTTL', KEYS[2]) < rest then
    redis.call('PEXPIRE', KEYS[2], rest)
  end
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
  dismiss_all(tokens, found)
  depart(kind, #tokens, 'died', info_of(found[1]))
  reply = record_break(mint(1), line(found[1]), KEYS[5])
  pcall(serve_or_notify)
  tidy()
  return reply
end

return answer(main)
