-- share_disown.lua: ends one hold of an owned lock for its owner, whoever has the hold's
-- token: the one that would expire first. It is the likeliest to be of a process that is no
-- more.
--
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds, in Strict mode
--         [5] incarnation mark
-- ARGV    [1] flags as in prelude.lua  [2] a token for this request  [3] the owner's id
--         [4] not-after, server time in µs
-- Returns 'released NOW LEFT'  so many holds the owner has left
--         'free NOW'           nobody has the lock: it has expired, or was given up
--         'held NOW PTTL WAITERS VALUE'  another owner has it; VALUE as of one of its holds
--         'late NOW'           nothing was done
--         'error MESSAGE'      it may still have it
--
-- Invariants: another owner's holds are not touched; sent twice, one hold is ended, or none if
-- the first run ended none: until not-after there are tombstones of the request's token in the
-- queue, written before anything else.

-- include prelude.lua
-- include mint.lua
-- include queue.lua
-- include parties.lua
-- include shares.lua
-- include incarnation.lua
-- include bury.lua
-- include serve_others.lua

local who, not_after = ARGV[3], tonumber(ARGV[4])

local function soonest()
  complete_index()
  while true do
    local owner = redis.call('ZRANGE', expiries, '0', '0')[1]
    local hold = owner and redis.call('HGET', KEYS[1], owner)
    if not owner or hold then
      return owner, hold
    end
    redis.call('ZREM', expiries, owner)
  end
end

-- What a request has left that ended nothing.
local nothing = 'x:' .. token .. ':nothing'

local function released()
  return 'released ' .. whole(now) .. ' ' .. whole(has(who) and used or 0)
end

local function main()
  load('own')
  if redis.call('ZSCORE', KEYS[2], 'x:' .. token) then
    on_master()
    return released()
  end
  if redis.call('ZSCORE', KEYS[2], nothing) then
    on_master()
    return 'free ' .. whole(now)
  end
  if now >= not_after then
    on_master()
    return 'late ' .. whole(now)
  end
  if used == 0 then
    remember(nothing, not_after)
    return 'free ' .. whole(now)
  end
  if not has(who) then
    remember(nothing, not_after)
    local pttl, value = sample()
    return 'held ' .. whole(now) .. ' ' .. (pttl or 0) .. ' ' .. redis.call('ZCOUNT', KEYS[2], '0', '+inf') .. ' ' .. (value or 'hf1:-:0:0:0:')
  end
  insist()
  bury(not_after)
  dismiss(soonest())
  local reply = released()
  pcall(serve_others)
  tidy()
  return reply
end

-- include answer.lua
