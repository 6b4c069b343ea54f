-- reassert.lua: restores a lock that its holder had when the server lost its data.
-- KEYS    [1] lock  [2] queue  [3] fence counter
-- ARGV    [1] flags  [2] token  [3] TTL, ms  [4] not-after, server time in µs
--         [5] the fence of the grant  [6] the last fence that the grant has reserved  [7] info
--         [8] NOW of the reply that granted the lock
--         [9] at most how long, in µs, from the sending of the request for that reply until the holder heard that the lock is absent
--         [10] NOW of the answer that said so
-- Returns 'renewed NOW PTTL 0 0'  the lock is the token's, with its fence
--         'gone NOW'              another has the lock
--         'absent NOW'            nobody has the lock, but no data was lost, or another may have had the lock since
--         'late NOW'              not-after has come: nothing was done
-- Invariants: data was lost if the fence counter is missing or below the grant's fence. An operator who deletes a lock leaves the
-- counter alone; another holder since then has raised it to at least the time of its grant, rounded down to a ms. Fences keep rising.
-- requires prelude, lock, mint, waiters, grant, chain, answer

local ttl, not_after, fence, reserved, info = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]

local granted_at, age, asked = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])

-- A counter of at least this may be that of a later grant, which raised it to its time by the clock of the server that granted. If that
-- clock runs as before, its time is after granted_at. If this server is another, or its clock was set back, its time is after what this
-- clock showed, or would have shown, when the request was sent. The age counts back from the answer, and so leaves out the time that this
-- request took to arrive.
-- mutants: had-between
local later = math.min(fence, granted_at, asked - age)

-- Returns the id of the counter's last entry, or nil if there is no counter.
local function last_id()
  if not cluster then return (checked(redis.pcall('XREVRANGE', counter, '+', '-', 'COUNT', '1'))[1] or {})[1] end
  -- There it has no entries.
  local info = redis.call('EXISTS', counter) == 1 and checked(redis.pcall('XINFO', 'STREAM', counter)) or {}
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return info[i + 1] end
  end
end

local function another_had_it()
  -- mutants: clock-behind
  if now < asked then -- another clock, of which the answer says nothing
    return true
  end
  local id = last_id()
  -- The last fence is not below the time of its grant, rounded down to a ms.
  -- mutants: had-in-the-same-ms
  return id and fence_of(id) >= later - later % 1000
end

local function main()
  if now >= not_after then return refuse('late') end
  local value = read_lock()
  local granted, fresh = mine .. ARGV[5] .. ':', mine .. '0:'
  -- mutants: reassert-own
  if value and (string.sub(value, 1, #granted) == granted or string.sub(value, 1, #fresh) == fresh) then
    return renewed(prolong(ttl), 0)
  end
  if value or another_had_it() or redis.call('ZSCORE', KEYS[2], 'x:' .. token) then
    return refuse(value and 'gone' or 'absent')
  end
  -- The next fence is at least the server's time, rounded down to a ms, so the counter has to be restored only if it led that time.
  if reserved >= now - now % 1000 then
    raise_to(reserved)
  end
  write_lock(token, new_value(token, fence, new_chain(), info, first_waiter()), ttl)
  return renewed(ttl, 0)
end
