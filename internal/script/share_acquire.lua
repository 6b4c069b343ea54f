-- share_acquire.lua: takes a share of a lock, or queues for it, or looks where a waiter
-- stands. acquire.lua for locks that several may hold.
--
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds, in Strict mode
--         [5] incarnation mark
-- ARGV    [1] flags: one of 't' try, 'w' wait: queue if it cannot be had, 'l' look: a
--             waiter's check, which creates nothing; and as in prelude.lua
--         [2] token  [3] TTL, ms  [4] not-after, server time in µs, 0 for none
--         [5] fences wanted  [6] info  [7] kind
--         [8] limit; of an owned lock, how many holds the owner may have at a time
--         [9] weight, of an owned lock followed by a line feed and the owner's id
--         [10] claim, ms  [11] channel  [12] score of an earlier entry, or ''  (w, l)
-- Returns 'granted NOW PTTL FENCE BLOCK': PTTL of the caller's hold
--         'held NOW PTTL WAITERS VALUE'   (t) of some holder's; 'hf1:-:0:0:0:' if there is none
--         'queued NOW PTTL SCORE RANK RECEIVERS ours'     (w, l) what is left until some
--             hold may end by itself
--         'deep NOW HOLDS'  the owner has so many holds already; nothing was taken
--         'gone NOW', 'late NOW', 'quarantined NOW REST': as acquire.lua
--         'error MESSAGE': nothing was taken
--
-- Invariants: the weights of all holds stay within the limit; sent twice, the second run
-- gives the first one's fence with its own times; nobody passes a live waiter, but who
-- shares with the owner that has an owned lock: it would wait for itself.

-- include prelude.lua
-- include mint.lua
-- include queue.lua
-- include parties.lua
-- include shares.lua
-- include incarnation.lua
-- include place.lua

local try, look = string.find(flags, 't', 1, true), string.find(flags, 'l', 1, true)
local ttl, not_after, block, info = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local member = not try and token .. '\n' .. ARGV[10] .. '\n' .. ARGV[11] .. '\n' .. ARGV[9] .. '\n' .. info

local function granted(pttl, fence, n)
  return 'granted ' .. whole(now) .. ' ' .. pttl .. ' ' .. whole(fence) .. ' ' .. n
end

local function quarantined(rest)
  return 'quarantined ' .. whole(now) .. ' ' .. rest
end

local function queued(pttl, score)
  return 'queued ' .. whole(now) .. ' ' .. whole(pttl) .. ' ' .. whole(score)
    .. ' ' .. rank(member, score) .. ' ' .. receivers(ARGV[11]) .. ' ours'
end

local function take(weight, who)
  local fence, n = admit(token, weight, info, ttl, block, who)
  return granted(ttl, fence, n)
end

-- The owner has the lock already.
local function take_again(member, who)
  if used >= tonumber(ARGV[8]) then
    on_master()
    return 'deep ' .. whole(now) .. ' ' .. whole(used)
  end
  moved = member and first_waiter() == member
  if member then
    redis.call('ZREM', KEYS[2], member)
  end
  local sleeps_until = next_expiry
  local reply = take(1, who)
  if moved then
    serve()
  elseif next_expiry < sleeps_until and first_waiter() then
    stand_by(first_waiter(), next_expiry)
  end
  return reply
end

local function held()
  on_master()
  local pttl, value = sample()
  return 'held ' .. whole(now) .. ' ' .. (pttl or 0) .. ' ' .. redis.call('ZCOUNT', KEYS[2], '0', '+inf') .. ' ' .. (value or 'hf1:-:0:0:0:')
end

local function main()
  local rest = quarantine()
  local hold = load(ARGV[7], ARGV[7] ~= 'own' and tonumber(ARGV[8]) or everything)
  local weight, _, who = wish(ARGV[9] .. '\n' .. info)
  -- A tombstone ends at not-after, so what arrives just then is late.
  local late = not look and not_after > 0 and now >= not_after

  if hold then
    if rest == 0 then
      local _, _, fence = parse_hold(hold)
      return granted(prolong_hold(hold, ttl), fence, 1)
    end
    if try then
      return quarantined(rest)
    end
    -- As in acquire.lua.
    local expiry = parse_hold(hold)
    return queued(math.min(math.ceil((expiry - now) / 1000), rest), tonumber(ARGV[12]) or now)
  elseif redis.call('ZSCORE', KEYS[2], 'x:' .. token) then
    on_master()
    return 'gone ' .. whole(now)
  elseif late then
    on_master()
    return 'late ' .. whole(now)
  elseif weight > limit then
    misfit(', and ' .. whole(weight) .. ' are wanted at once')
  end

  if try then
    if rest > 0 then
      return quarantined(rest)
    end
    serve()
    if has(who) then
      return take_again(nil, who)
    end
    if not first_waiter() and room(weight, who) then
      return take(weight, who)
    end
    return held()
  end

  if look and not redis.call('ZSCORE', KEYS[2], member) then
    on_master()
    return 'gone ' .. whole(now)
  end
  if rest == 0 and has(who) then
    return take_again(member, who)
  end
  -- mutants: share-nobody-waits
  if rest == 0 and not look and not first_waiter() and room(weight, who) then
    return take(weight, who)
  end
  local score = place(member, ARGV[12])
  if rest == 0 then
    local fence, n = serve(member, ttl, block)
    if fence then
      return granted(ttl, fence, n)
    end
    rest = math.ceil((next_expiry - now) / 1000)
  end
  return queued(rest, score)
end

-- include answer.lua
