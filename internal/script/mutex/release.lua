-- release.lua: releases a lock and hands it over, or leaves its queue: ends whatever its token has. Its short way is pass_on.lua.
-- KEYS    [1] lock  [2] queue  [3] fence counter
-- ARGV    [1] flags  [2] token  [3] member of the queue, or ''
--         [4] tombstone: server time in µs until which an acquire of this token may still arrive, 0 if none can
--         optional, about the caller's next waiter, which is queued if another gets the lock: [5] not-after  [6] member  [7] channel
-- Returns 'released NOW'            the lock was the token's
--         'released NOW PTTL SCORE RANK RECEIVERS'  it was, and the next waiter is queued, as acquire.lua tells
--         'left NOW'                the token was queued
--         'gone NOW', 'absent NOW'  neither; another has the lock, or nobody has it
-- Invariants: only the token's own lock is touched; a token that has ended stays ended. A release never fails because of the hand-
-- over: if that fails, the lock is deleted. (If the server's own SET took the lock past a waiter, the client is told. Otherwise it
-- would ask again, and pass the waiter.)
-- requires pass_on, prelude, lock, queue, give, tombstone, answer

local member, until_time = ARGV[3], tonumber(ARGV[4])

local function leave()
  local led = leads(member)
  if redis.call('ZREM', KEYS[2], member) == 0 then return false end
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
    elseif string.sub(value, 1, 4) == 'hf2:' and not serves_others(value) then
      stand_by(first, now + math.max(redis.call('PTTL', KEYS[1]), 0) * 1000)
    else
      stand_by(first, now)
    end
  end
  return true
end

local function main()
  local value = unheard or read_lock()
  -- mutants: release-owner
  if is_mine(value) then
    -- A lock without a fence was set by the server's own SET, which does not see who waits.
    -- mutants: release-fresh
    if string.sub(value, -1) ~= '+' and string.sub(value, #mine + 1, #mine + 2) ~= '0:' then
      free_lock()
    else
      local given, failure = pcall(give, value)
      if not given and is_mine(read_lock(look_at)) then
        -- It failed before it changed anything.
        free_lock()
      end
      -- mutants: release-barger
      if not given and string.sub(value, -1) ~= '+' then error(error_text(failure), 0) end
    end
    pcall(leave_tombstone, until_time)
    return 'released ' .. at
  end
  local left = member ~= '' and leave()
  if not left then
    on_master()
  end
  leave_tombstone(until_time)
  return (left and 'left ' or value and 'gone ' or 'absent ') .. at
end
