-- parties.lua: latches and barriers, and what the end of one of their parties does to them. A
-- fragment; needs prelude.lua and queue.lua.
--
-- They are kept as locks that several may hold (shares.lua), of the kinds latch and bar: a
-- hold is a party's, and the limit is how many parties there are. Their hash has more fields.
--   latch: count    so many parties have not ended yet
--          missing  so many of the others have ended without counting down
--          since    which count this is: server time (µs) of its beginning, later than
--                   those of all before
--          opened   the latest of the counts before it that came to 0, and opened_missing
--   bar:   phase    at which parties arrive now, from 1   arrived  how many have
--          tripped  the latest phase at which all did, or 0
--          broken   how a party ended that broke a phase, the latest: 'left INFO', 'died INFO'
--          @TOKEN   a party's latest await: 'NUMBER PHASE in', or 'out' if it was withdrawn; 0
--                   is the number of who has only joined

-- How long a latch is kept after its last use, in ms: a day. And what is known of one that was deleted:
-- for longer than those who wait for it sleep.
local latch_rest, latch_trace = 86400000, 60000

-- Has a latch last for so long from now on, or for as long as its holds.
local function rest()
  local least = redis.call('HGET', KEYS[1], 'count') and latch_rest or latch_trace
  redis.call('PEXPIRE', KEYS[1], whole(math.max(least, redis.call('PTTL', KEYS[1]))))
end

-- Has those who wait look. What it meets is not told: they look from time to time anyway.
local function tell(kind)
  local channel = string.match(KEYS[1], '^[^{]*') .. 'c:w:' .. KEYS[1]
  if cluster then
    channel = KEYS[1] .. ':' .. kind .. ':w'
  end
  pcall(send, channel, 'hf1 changed ' .. whole(now))
end

-- For what was done to a latch by an earlier request, and is answered again: writes, so that WAIT
-- tells of that, too. It tells of what its own connection has written before.
local function attest()
  on_master()
  pcall(rest)
end

-- Begins a latch's count of n parties, in the place of the one before, if there is one.
local function begin_count(n)
  local f = redis.call('HMGET', KEYS[1], 'since', 'count', 'missing')
  local since = math.max(now, tonumber(f[1] or 0) + 1)
  if f[2] == '0' then
    redis.call('HSET', KEYS[1], 'opened', f[1], 'opened_missing', f[3])
  end
  redis.call('HSET', KEYS[1], 'kind', 'latch', 'limit', whole(n), 'used', '0', 'holds', '0', 'next', '9000000000000000',
    'count', whole(n), 'missing', '0', 'since', whole(since))
  redis.call('PEXPIRE', KEYS[1], latch_rest)
  return since
end

-- Ends a latch's count, in the place of which there is none until somebody uses the latch again.
local function delete_count()
  begin_count(0)
  redis.call('HDEL', KEYS[1], 'limit', 'count', 'missing')
  redis.call('PEXPIRE', KEYS[1], latch_trace)
end

-- Lets a party of a barrier begin with the present phase.
local function enter(owner)
  redis.call('HSET', KEYS[1], '@' .. owner, '0 ' .. (redis.call('HGET', KEYS[1], 'phase') or '1') .. ' out')
end

-- Lets n parties have ended: 'done', if they have counted down, or else 'left' or 'died'. info
-- is that of one of them.
local function depart(kind, n, how, info)
  if kind == 'latch' then
    local f = redis.call('HMGET', KEYS[1], 'count', 'missing')
    local count, missing = math.max(tonumber(f[1] or 0) - n, 0), tonumber(f[2] or 0)
    -- mutants: count-missing
    if how ~= 'done' then
      missing = missing + n
    end
    redis.call('HSET', KEYS[1], 'count', whole(count), 'missing', whole(missing))
    rest()
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
