-- acquire.lua: acquires a lock, queues for it, or checks on behalf of a waiter. Its short way is queue_up.lua.
-- KEYS    [1] lock  [2] queue  [3] fence counter
-- ARGV    [1] flags, and 't' try, 'w' wait: queue if the lock cannot be granted, or 'l' look: a waiter's check, which creates nothing
--         [2] token  [3] TTL, ms  [4] not-after, server time in µs, 0 for none  [5] fences wanted  [6] info
--         and with 'w' and 'l' [7] claim, ms  [8] channel  [9] score of an earlier entry, or ''
-- Returns 'granted NOW PTTL FENCE BLOCK'
--         'held NOW PTTL WAITERS VALUE'  (t) VALUE is '' if a Redisson client has the lock, or if it is left to other programs just now
--         'queued NOW PTTL SCORE RANK RECEIVERS ours|foreign'  (w, l)
--         'gone NOW'              a tombstone stands for this token, or (l) it is not queued
--         'late NOW'              not-after has come
--         'quarantined NOW REST'  (t) Strict mode: nothing is granted for so many ms. A waiter is queued instead, with REST as PTTL,
--                                 even if it was handed the lock already
-- Invariants: a grant is written after its fence; a lock that is set while somebody waits is marked; nobody passes a live waiter. If
-- the request is sent twice, the second run replies with the first one's fence and its own times, and with a full TTL.
-- requires queue_up, prelude, lock, mint, queue, grant, chain, hand_over, incarnation, enqueue, answer

local member = not try and token .. '\n' .. ARGV[7] .. '\n' .. ARGV[8] .. '\n' .. info

local function take()
  local fence, n = mint(block)
  write_lock(token, new_value(token, fence, new_chain(), info, false), ttl)
  return granted(ttl, fence, n)
end

-- Marks a value of ours: somebody waits.
local function mark_lock(value)
  if redisson then
    redis.call('HSET', KEYS[1], 'holdfast', value .. '+')
  else
    redis.call('APPEND', KEYS[1], '+')
  end
end

local function main()
  local rest = quarantine()
  local value = read_lock()
  -- mutants: nobody-waits
  if rest == 0 and not value and not look and redis.call('EXISTS', KEYS[2]) == 0 then
    if is_late() then return refuse('late') end
    return take()
  end

  -- mutants: own-lock
  if is_mine(value) then
    if rest == 0 then
      local pttl = prolong(ttl)
      return granted(pttl, tonumber(string.match(value, '^%d+', #mine + 1)), 1)
    end
    if try then return quarantined(rest) end
    -- The waiter may not have heard that it was handed the lock, and must not be told before all earlier grants are over. Or it has heard,
    -- and this is a late copy. The lock stays in both cases.
    -- mutants: quarantined-own
    return queued(member, ARGV[8], math.min(redis.call('PTTL', KEYS[1]), rest), tonumber(ARGV[9]) or now, 'ours')
  end

  if not try then
    read_head(member)
  end
  if not head and redis.call('ZSCORE', KEYS[2], 'x:' .. token) then return refuse('gone') end
  if is_late() then return refuse('late') end

  local left = not value and rest == 0 and gap() or 0
  if try then
    if not value and rest > 0 then return quarantined(rest) end
    if not value and left == 0 then
      hand_over(new_chain())
      value = read_lock()
      if not value then return take() end
    end
    local pttl = value and redis.call('PTTL', KEYS[1]) or left
    return refuse('held', pttl .. ' ' .. redis.call('ZCOUNT', KEYS[2], '0', '+inf') .. ' ' .. (value or ''))
  end

  if look and not redis.call('ZSCORE', KEYS[2], member) then return refuse('gone') end
  local score = enqueue(member, ARGV[9])

  if not value and rest == 0 and left == 0 then
    head = nil
    local fence, n = hand_over(new_chain(), member, ttl, block)
    if fence then return granted(ttl, fence, n) end
    value = read_lock()
  end
  local kind, pttl = 'ours', math.max(rest, left)
  if value then
    pttl = redis.call('PTTL', KEYS[1])
    if pttl >= 0 then pttl = math.max(pttl, rest) end
    local ours = string.sub(value, 1, 4) == 'hf2:'
    if not ours or serves_others(value) then kind = 'foreign' end
    if ours and string.sub(value, -1) ~= '+' then
      -- mutants: mark-lock
      mark_lock(value)
    end
  end
  return queued(member, ARGV[8], pttl, score, kind)
end
