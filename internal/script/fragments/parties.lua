-- parties.lua: latches and barriers, and what the end of a party does to them. They are locks that several may hold (shares.lua), of the
-- kinds latch and bar: each party has a hold, and the limit is the number of parties. Their hash has more fields.
--   latch: count    how many parties have not ended yet
--          missing  how many of the others ended without counting down
--          since    names this count: the server time (µs) of its beginning, later than that of every count before
--          opened   the latest earlier count that came to 0, and opened_missing
--   bar:   phase    the phase at which parties arrive now, from 1
--          arrived  how many have arrived
--          tripped  the latest phase at which all arrived, or 0
--          broken   how the party ended that broke a phase last: 'left INFO' or 'died INFO'
--          @TOKEN   a party's latest await: 'NUMBER PHASE in', or 'out' if it was withdrawn or, with NUMBER 0, has only joined
-- requires prelude, channel

-- How long a latch is kept after its last use, in ms: a day. And a deleted latch: for longer than those who wait for it sleep.
local latch_ttl, deleted_latch_ttl = 86400000, 60000

-- Makes a latch last for that time from now on, or for as long as its holds.
local function keep_latch()
  local least = redis.call('HGET', KEYS[1], 'count') and latch_ttl or deleted_latch_ttl
  redis.call('PEXPIRE', KEYS[1], whole(math.max(least, redis.call('PTTL', KEYS[1]))))
end

-- Tells those who wait to look. Errors are ignored: they look from time to time anyway.
local function tell(kind)
  local channel = string.match(KEYS[1], '^[^{]*') .. 'c:w:' .. KEYS[1]
  if cluster then channel = KEYS[1] .. ':' .. kind .. ':w' end
  pcall(send, channel, 'hf2 changed ' .. at)
end

-- Writes to the latch, for a script that confirms an earlier request: WAIT confirms only writes of its own connection.
local function touch_latch()
  on_master()
  pcall(keep_latch)
end

-- Begins a latch's count of n parties, in place of the count before it.
local function begin_count(n)
  local f = redis.call('HMGET', KEYS[1], 'since', 'count', 'missing')
  local since = math.max(now, tonumber(f[1] or 0) + 1)
  if f[2] == '0' then
    redis.call('HSET', KEYS[1], 'opened', f[1], 'opened_missing', f[3])
  end
  redis.call('HSET', KEYS[1], 'kind', 'latch', 'limit', whole(n), 'used', '0', 'holds', '0', 'next', '9000000000000000',
    'count', whole(n), 'missing', '0', 'since', whole(since))
  redis.call('PEXPIRE', KEYS[1], latch_ttl)
  return since
end

-- Ends a latch's count. The next use of the latch begins another.
local function delete_count()
  begin_count(0)
  redis.call('HDEL', KEYS[1], 'limit', 'count', 'missing')
  redis.call('PEXPIRE', KEYS[1], deleted_latch_ttl)
end

-- Lets a party of a barrier begin with the present phase.
local function enter(party)
  redis.call('HSET', KEYS[1], '@' .. party, '0 ' .. (redis.call('HGET', KEYS[1], 'phase') or '1') .. ' out')
end

-- Records that n parties have ended: 'done' if they have counted down, otherwise 'left' or 'died'. info is that of one of them.
local function depart(kind, n, how, info)
  if kind == 'latch' then
    local f = redis.call('HMGET', KEYS[1], 'count', 'missing')
    local count, missing = math.max(tonumber(f[1] or 0) - n, 0), tonumber(f[2] or 0)
    -- mutants: count-missing
    if how ~= 'done' then
      missing = missing + n
    end
    redis.call('HSET', KEYS[1], 'count', whole(count), 'missing', whole(missing))
    keep_latch()
    -- mutants: latch-opens
    if count == 0 then
      tell(kind)
    end
  -- mutants: break-phase
  elseif kind == 'bar' then
    local phase = tonumber(redis.call('HGET', KEYS[1], 'phase') or 1)
    redis.call('HSET', KEYS[1], 'phase', whole(phase + 1), 'arrived', '0', 'broken', how .. ' ' .. info)
    tell(kind)
  end
end
