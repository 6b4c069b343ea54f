-- reassert.lua: takes a lock again that its holder had when the server lost its data.
--
-- KEYS    [1] lock  [2] queue  [3] fence counter
-- ARGV    [1] flags as in prelude.lua  [2] token  [3] TTL, ms
--         [4] not-after, server time in µs  [5] the fence that the grant has
--         [6] the last fence that the grant has reserved  [7] info
--         [8] the server's time, µs, in the answer by which the lock was granted
--         [9] how long ago, in µs, that answer was asked for, at most
-- Returns 'renewed NOW PTTL 0 0'  the lock is the token's, with the fence it had
--         'gone NOW'              no data was lost, or another has, or may have had, the lock since
--         'late NOW'              not-after has come: nothing was done
--         'error MESSAGE'
--
-- Invariants: what shows that data was lost is a fence counter that is missing or below
-- the grant's fence. An operator who deletes a lock leaves the counter alone; whoever
-- has had the lock since has raised it, to the time of that grant at least. Fences go on rising.

-- include prelude.lua
-- include lock.lua
-- include mint.lua
-- include queue.lua
-- include hand_over.lua

local ttl, not_after, fence, reserved, info = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]

local granted_at, age = tonumber(ARGV[8]), tonumber(ARGV[9])

-- A counter from here on may be that of a grant which came after this one. It is at least the time of that
-- grant, by the clock of the server that granted. That is after granted_at if that clock is as it was; if this
-- one is another, or was set back, then after what this one showed, or would have, when that answer was asked for.
-- mutants: had-between
local later = math.min(fence, granted_at, now - age)

-- In Cluster mode a lock's own counter expires after a day. Before that, none is none that was written.
local counter_kept = 82800000000

local function another_had_it()
  local counter = redis.call('GET', KEYS[3])
  if counter then
    return (tonumber(counter) or later) >= later
  end
  return cluster and now - granted_at > counter_kept
end

local function renewed(pttl)
  return 'renewed ' .. whole(now) .. ' ' .. pttl .. ' 0 0'
end

local function main()
  if now >= not_after then
    on_master()
    return 'late ' .. whole(now)
  end
  local value = read_lock()
  local granted = mine .. ARGV[5] .. ':'
  if value and string.sub(value, 1, #granted) == granted then
    return renewed(prolong(ttl))
  end
  if value or another_had_it() or redis.call('ZSCORE', KEYS[2], 'x:' .. token) then
    on_master()
    return 'gone ' .. whole(now)
  end
  -- The next fence is at least the server's time; a counter that led it has to be put back.
  if reserved >= now then
    store_counter(reserved)
  end
  write_lock(token, owned(token, fence, new_chain(), info, first_waiter()), ttl)
  return renewed(ttl)
end

-- include answer.lua
