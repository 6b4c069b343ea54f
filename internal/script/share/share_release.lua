-- share_release.lua: releases a hold and serves the waiters, or leaves the queue: ends whatever its token has.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds
-- ARGV    [1] flags  [2] token  [3] member of the queue, or ''
--         [4] tombstone: server time in µs until which an acquire of this token may still arrive, 0 if none can
--         [5] how a party of a latch or a barrier ends (parties.lua): 'done', 'left' or 'died'; '' if it never knew that it was one
-- Returns 'released NOW'            the token had a hold, or an earlier sending of this request counted it down
--         'left NOW'                the token was queued
--         'gone NOW', 'absent NOW'  neither; others have the lock, or nobody has it
--         'superseded NOW'          neither: share_disown.lua or latch_reset.lua has ended the hold
-- Invariants: only the token's own hold is touched; waiters never make a release fail, but a party that is done stays if that cannot be noted.
-- requires prelude, queue, parties, shares, tombstone, serve_or_notify, answer

local member, until_time, ending = ARGV[3], tonumber(ARGV[4]), ARGV[5] or ''

local function main()
  local hold = load()
  if hold then
    local _, weight, _, _, info = parse_hold(hold)
    if ending == 'done' then
      remember('d:' .. token, until_time)
    end
    -- mutants: release-share
    dismiss(token, weight)
    if ending ~= '' then
      depart(kind, 1, ending, info)
    end
    pcall(serve_or_notify)
    tidy()
    pcall(leave_tombstone, until_time)
    return 'released ' .. at
  elseif ending == 'done' and redis.call('ZSCORE', KEYS[2], 'd:' .. token) then
    touch_latch()
    return 'released ' .. at
  end
  local left = false
  if member ~= '' then
    local led = leads(member)
    left = redis.call('ZREM', KEYS[2], member) == 1
    if left and led then
      -- The waiters behind it may weigh less.
      head_changed = true
      pcall(serve_or_notify)
    end
  end
  if not left then
    on_master()
  end
  leave_tombstone(until_time)
  if left then return 'left ' .. at end
  local reply = missing()
  if kind ~= 'latch' and is_superseded() then
    redis.call('ZREM', expiries, 's:' .. token) -- the holder knows now
  end
  return reply
end
