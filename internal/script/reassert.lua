-- reassert.lua: takes a lock again that its holder had when the server lost its data.
--
-- KEYS    [1] lock  [2] queue  [3] fence counter
-- ARGV    [1] flags as in prelude.lua  [2] token  [3] TTL, ms
--         [4] not-after, server time in µs  [5] the fence that the grant has
--         [6] the last fence that the grant has reserved  [7] info
-- Returns 'renewed NOW PTTL 0 0'  the lock is the token's, with the fence it had
--         'gone NOW'              no data was lost, or another has, or had, the lock since
--         'late NOW'              not-after has come: nothing was done
--         'error MESSAGE'
--
-- Invariants: what shows that data was lost is a fence counter that is missing or below
-- the grant's fence. An operator who deletes a lock leaves the counter alone; whoever
-- has had the lock since has raised it. Fences go on rising.

-- include prelude.lua
-- include lock.lua
-- include mint.lua
-- include queue.lua
-- include hand_over.lua

local ttl, not_after, fence, reserved, info = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]

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
  local counter = redis.call('GET', KEYS[3])
  if value or counter and (tonumber(counter) or fence) >= fence or redis.call('ZSCORE', KEYS[2], 'x:' .. token) then
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
