-- share_acquire.lua: acquires a hold of a lock that several may hold, queues for it, or checks on behalf of a waiter.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds
-- ARGV    [1] to [6] as acquire.lua  [7] kind
--         [8] limit; of an owned lock, how many holds the owner may have at a time
--         [9] weight; of an owned lock, followed by a line feed and the owner's id
--         and with 'w' and 'l' [10] claim, ms  [11] channel  [12] score of an earlier entry, or ''
-- Returns 'granted NOW PTTL FENCE BLOCK'  PTTL of the caller's hold
--         'held NOW PTTL WAITERS VALUE'   (t) of some hold; VALUE is 'hf2:-:0:0:0:' if there is none
--         'queued NOW PTTL SCORE RANK RECEIVERS ours'  (w, l) PTTL is what is left until a hold may expire
--         'deep NOW HOLDS'                the owner has that many holds already; nothing was acquired
--         'gone NOW', 'late NOW', 'quarantined NOW REST'  as acquire.lua
-- Invariants: the weights of all holds stay within the limit; a request that is sent twice, as acquire.lua; nobody passes a live
-- waiter, except an owner that has the lock already: it would wait for itself.
-- requires prelude, mint, queue, parties, shares, incarnation, enqueue, answer

local member = not try and token .. '\n' .. ARGV[10] .. '\n' .. ARGV[11] .. '\n' .. ARGV[9] .. '\n' .. info

local function take(weight, owner)
  local fence, n = admit(token, weight, info, ttl, block, owner)
  return granted(ttl, fence, n)
end

-- Adds a hold for the owner that has the lock.
local function take_again(member, owner)
  if used >= tonumber(ARGV[8]) then return refuse('deep', whole(used)) end
  head_changed = member and first_waiter() == member
  if member then
    redis.call('ZREM', KEYS[2], member)
  end
  local sleeps_until = next_expiry
  local reply = take(1, owner)
  if head_changed then
    serve()
  elseif next_expiry < sleeps_until and first_waiter() then
    stand_by(first_waiter(), next_expiry)
  end
  return reply
end

local function main()
  local rest = quarantine()
  local hold = load(ARGV[7], ARGV[7] ~= 'own' and tonumber(ARGV[8]) or unlimited)
  local weight, _, owner = parse_request(ARGV[9] .. '\n' .. info)
  if hold then
    local expiry, _, fence = parse_hold(hold)
    if rest == 0 then return granted(prolong_hold(hold, ttl), fence, 1) end
    if try then return quarantined(rest) end
    -- As in acquire.lua.
    return queued(member, ARGV[11], math.min(math.ceil((expiry - now) / 1000), rest), tonumber(ARGV[12]) or now, 'ours')
  elseif redis.call('ZSCORE', KEYS[2], 'x:' .. token) then
    return refuse('gone')
  elseif is_late() then
    return refuse('late')
  elseif weight > limit then
    refuse_limit(', and ' .. whole(weight) .. ' are wanted at once')
  end

  if try then
    if rest > 0 then return quarantined(rest) end
    serve()
    if owned_by(owner) then return take_again(nil, owner) end
    if not first_waiter() and room(weight, owner) then return take(weight, owner) end
    return refuse('held', some_hold(redis.call('ZCOUNT', KEYS[2], '0', '+inf')))
  end

  if look and not redis.call('ZSCORE', KEYS[2], member) then return refuse('gone') end
  if rest == 0 and owned_by(owner) then return take_again(member, owner) end
  -- mutants: share-nobody-waits
  if rest == 0 and not look and not first_waiter() and room(weight, owner) then return take(weight, owner) end
  local score = enqueue(member, ARGV[12])
  if rest == 0 then
    local fence, n = serve(member, ttl, block)
    if fence then return granted(ttl, fence, n) end
    rest = math.ceil((next_expiry - now) / 1000)
  end
  return queued(member, ARGV[11], rest, score, 'ours')
end
