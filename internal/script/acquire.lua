-- acquire.lua: takes a lock, or queues for it, or looks where a waiter stands.
--
-- KEYS    [1] lock  [2] queue  [3] fence counter, in Strict mode [4] incarnation mark
-- ARGV    [1] flags: one of 't' try, 'w' wait: queue if it cannot be had, 'l' look: a
--             waiter's check, which creates nothing; and 'c', 'k' as in prelude.lua
--         [2] token  [3] TTL, ms  [4] not-after, server time in µs, 0 for none
--         [5] fences wanted  [6] info
--         [7] claim, ms  [8] channel  [9] score of an earlier entry, or ''  (w, l)
-- Returns 'granted NOW PTTL FENCE BLOCK'
--         'held NOW PTTL WAITERS VALUE'        (t) VALUE is '' of a lock that is left to
--             other programs just now, and of one that a Redisson client has
--         'queued NOW PTTL SCORE RANK RECEIVERS ours|foreign'     (w, l)
--         'gone NOW': a tombstone stands for this token, or (l) it is not queued
--         'late NOW': not-after has come
--         'quarantined NOW REST'  (t) Strict mode: nothing is granted for so many ms yet.
--             A waiter is queued instead, with what is left as PTTL; or, if it has been handed
--             the lock, told that it is queued, until that is over
--         'error MESSAGE': nothing was taken
-- NOW and SCORE in µs, PTTL in ms (negative: no expiry).
--
-- Invariants: a grant is written after its fence; a lock set while somebody waits is
-- marked; sent twice, the second run gives the first one's fence with its own times,
-- and a full TTL where the first had been handed the lock for a claim;
-- nobody passes a live waiter.

-- include prelude.lua
-- include lock.lua
-- include mint.lua
-- include queue.lua
-- include hand_over.lua
-- include incarnation.lua
-- include place.lua

local try, look = string.find(flags, 't', 1, true), string.find(flags, 'l', 1, true)
local ttl, not_after, block, info = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local member = not try and token .. '\n' .. ARGV[7] .. '\n' .. ARGV[8] .. '\n' .. info

local function granted(pttl, fence, n)
  return 'granted ' .. whole(now) .. ' ' .. pttl .. ' ' .. whole(fence) .. ' ' .. n
end

local function quarantined(rest)
  return 'quarantined ' .. whole(now) .. ' ' .. rest
end

local function queued(pttl, score, kind)
  return 'queued ' .. whole(now) .. ' ' .. pttl .. ' ' .. whole(score)
    .. ' ' .. rank(member, score) .. ' ' .. receivers(ARGV[8]) .. ' ' .. kind
end

local function take()
  local fence, n = mint(block)
  write_lock(token, owned(token, fence, new_chain(), info, false), ttl)
  return granted(ttl, fence, n)
end

local function main()
  local rest = quarantine()
  local value = read_lock()
  -- A tombstone ends at not-after, so what arrives just then is late.
  local late = not look and not_after > 0 and now >= not_after

  -- mutants: nobody-waits
  if rest == 0 and not value and not look and redis.call('EXISTS', KEYS[2]) == 0 then
    if late then
      on_master()
      return 'late ' .. whole(now)
    end
    return take()
  end

  -- mutants: own-lock
  if value and string.sub(value, 1, #mine) == mine then
    if rest == 0 then
      local pttl = prolong(ttl)
      return granted(pttl, tonumber(string.match(value, '^%d+', #mine + 1)), 1)
    end
    if try then
      return quarantined(rest)
    end
    -- It may not have heard that it was handed the lock, and is not to be told before all that was
    -- granted earlier is over. Or it has heard, and this is a late copy. Either way the lock stays.
    -- mutants: quarantined-own
    return queued(math.min(redis.call('PTTL', KEYS[1]), rest), tonumber(ARGV[9]) or now, 'ours')
  end

  if redis.call('ZSCORE', KEYS[2], 'x:' .. token) then
    on_master()
    return 'gone ' .. whole(now)
  end
  if late then
    on_master()
    return 'late ' .. whole(now)
  end

  local left = not value and rest == 0 and gap() or 0
  if try then
    if not value and rest > 0 then
      return quarantined(rest)
    end
    if not value and left == 0 then
      hand_over(new_chain())
      value = read_lock()
      if not value then
        return take()
      end
    end
    on_master()
    local waiters = redis.call('ZCOUNT', KEYS[2], '0', '+inf')
    return 'held ' .. whole(now) .. ' ' .. (value and redis.call('PTTL', KEYS[1]) or left) .. ' ' .. waiters .. ' ' .. (value or '')
  end

  if look and not redis.call('ZSCORE', KEYS[2], member) then
    on_master()
    return 'gone ' .. whole(now)
  end
  local score = place(member, ARGV[9])

  if not value and rest == 0 and left == 0 then
    local fence, n = hand_over(new_chain(), member, ttl, block)
    if fence then
      return granted(ttl, fence, n)
    end
    value = read_lock()
  end
  local kind, pttl = 'ours', math.max(rest, left)
  if value then
    pttl = redis.call('PTTL', KEYS[1])
    if pttl >= 0 then
      pttl = math.max(pttl, rest)
    end
    local ours = string.sub(value, 1, 4) == 'hf1:'
    if not ours or serves_others(value) then
      kind = 'foreign'
    end
    if ours and string.sub(value, -1) ~= '+' then
      -- mutants: mark-lock
      mark_lock(value)
    end
  end
  return queued(pttl, score, kind)
end

-- include answer.lua
