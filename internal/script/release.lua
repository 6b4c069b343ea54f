-- release.lua: gives a lock up and hands it over; or leaves its queue. Ends whatever
-- its token has.
--
-- KEYS    [1] lock  [2] queue  [3] fence counter, in Strict mode [4] incarnation mark
-- ARGV    [1] flags as in prelude.lua  [2] token  [3] member of the queue, or ''
--         [4] tombstone: server time in µs until which an acquire of this token may
--             still arrive, 0 when none can
-- Returns 'released NOW'  the lock was the token's
--         'left NOW'      the token was queued
--         'gone NOW'      neither
--         'error MESSAGE' the lock may still be the token's
--
-- Invariants: a release never fails because of the hand-over: if that fails, the lock
-- is deleted; only the token's own lock is touched; a token that is ended stays ended.

-- include prelude.lua
-- include lock.lua
-- include mint.lua
-- include queue.lua
-- include hand_over.lua
-- include incarnation.lua
-- include bury.lua

local member, until_time = ARGV[3], tonumber(ARGV[4])

-- Deletes the lock, and tells the first waiter to look after so many ms.
local function let_go(ms)
  free_lock()
  local first = first_waiter()
  if first then
    stand_by(first, now + ms * 1000)
  end
end

local function give(value)
  local chain, rest = next_chain(value), quarantine()
  if rest > 0 then
    let_go(rest)
  elseif chain then
    hand_over(chain)
  else
    open_gap()
    let_go(gap_length)
  end
end

local function leave()
  local led = leads(member)
  if redis.call('ZREM', KEYS[2], member) == 0 then
    return false
  end
  local first = led and first_waiter()
  if not first then
    settle()
  else
    local value = read_lock()
    local known, rest = pcall(quarantine)
    if not known then
      stand_by(first, now)
    elseif rest > 0 then
      stand_by(first, now + rest * 1000)
    elseif not value and gap() > 0 then
      stand_by(first, now + gap() * 1000)
    elseif not value then
      pcall(hand_over, new_chain())
    elseif string.sub(value, 1, 4) == 'hf1:' and not serves_others(value) then
      stand_by(first, now + math.max(redis.call('PTTL', KEYS[1]), 0) * 1000)
    else
      stand_by(first, now)
    end
  end
  return true
end

local function main()
  local value = read_lock()
  -- mutants: release-owner
  if value and string.sub(value, 1, #mine) == mine then
    if string.sub(value, -1) == '+' then
      if not pcall(give, value) then
        -- It may have failed before it changed anything.
        value = read_lock(look_at)
        if value and string.sub(value, 1, #mine) == mine then
          free_lock()
        end
      end
    else
      free_lock()
    end
    pcall(bury, until_time)
    return 'released ' .. whole(now)
  end
  local left = member ~= '' and leave()
  if not left then
    on_master()
  end
  bury(until_time)
  return (left and 'left ' or 'gone ') .. whole(now)
end

-- include answer.lua
