-- share_release.lua: gives up a share of a lock, and serves who waits; or leaves the queue.
-- Ends whatever its token has. release.lua for locks that several may hold.
--
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds, in Strict mode
--         [5] incarnation mark
-- ARGV    [1] flags as in prelude.lua  [2] token  [3] member of the queue, or ''
--         [4] tombstone: server time in µs until which an acquire of this token may
--             still arrive, 0 when none can
--         [5] how a party of a latch or a barrier ends (parties.lua): 'done', 'left' or 'died';
--             '' if it never knew that it was one
-- Returns 'released NOW'  the token had a hold; or has counted down when this was sent before
--         'left NOW'      the token was queued
--         'gone NOW'      neither
--         'error MESSAGE' it may still have it
--
-- Invariants: as those of release.lua: only the token's own hold is touched, and giving it
-- up never fails because of those who wait.

-- include prelude.lua
-- include mint.lua
-- include queue.lua
-- include parties.lua
-- include shares.lua
-- include incarnation.lua
-- include bury.lua
-- include serve_others.lua

local member, until_time, ending = ARGV[3], tonumber(ARGV[4]), ARGV[5] or ''

local function main()
  local hold = load()
  if hold then
    -- mutants: release-share
    dismiss(token, hold)
    if ending ~= '' then
      depart(kind, 1, ending, info_of(hold))
    end
    if ending == 'done' then
      remember('d:' .. token, until_time)
    end
    pcall(serve_others)
    tidy()
    pcall(bury, until_time)
    return 'released ' .. whole(now)
  elseif ending == 'done' and redis.call('ZSCORE', KEYS[2], 'd:' .. token) then
    attest()
    return 'released ' .. whole(now)
  end
  local left = false
  if member ~= '' then
    local led = leads(member)
    left = redis.call('ZREM', KEYS[2], member) == 1
    if left and led then
      -- Others may weigh less.
      moved = true
      pcall(serve_others)
    end
  end
  if not left then
    on_master()
  end
  bury(until_time)
  return (left and 'left ' or 'gone ') .. whole(now)
end

-- include answer.lua
