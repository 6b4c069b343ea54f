-- prelude.lua: what scripts that concern one lock begin with.
-- KEYS[1] the lock  KEYS[2] its queue  KEYS[3] the fence counter  ARGV[1] flags: 'c' the server runs in Cluster mode, 'k' the key is shared
-- with other programs, 'r' the lock has Redisson's form (lock.lua), 'sMS+MS' Strict mode (incarnation.lua); some scripts know more
-- ARGV[2] the caller's token
-- The lock has a value (value.lua): hf2:TOKEN:FENCE:GRANTED:CHAIN:INFO, and '+' at its end while somebody waits. GRANTED is the server's
-- time of the grant in ms. CHAIN is 0; on a shared key it is N@MS, for N hand-overs in a row since MS, or N@MS@QUEUE (chain.lua).
-- The queue is a sorted set. Waiters score above 0, in the order of their arrival. A tombstone's member is 'x:' and a token; its score is
-- the negated time (µs) at which it ends. A member that begins with 'd:' instead says that a request that may be done only once was done.
-- In replies NOW is the server's time in µs. PTTL is in ms, and negative if the key has no expiry.
-- requires request, answer

local token = ARGV[2]
local mine = 'hf2:' .. token .. ':'
local shared = string.find(flags, 'k', 1, true)

-- Reports whether a lock's value has the caller's token.
local function is_mine(value)
  return value and string.sub(value, 1, #mine) == mine
end

-- Fails on a replica, and changes nothing. A script that replies without writing calls it: a replica knows only what was, and a client that
-- it answers keeps asking it. The expiry is an hour in the past, before that of any key. One in the next ms could lengthen the last moment
-- of a key: Redis 7.0 counts it from a clock that advances while the script runs.
local function on_master()
  -- mutants: master-asked
  local ok, err = pcall(redis.call, 'PEXPIRE', KEYS[1], -3600000, 'GT')
  if not ok and string.sub(error_text(err), 1, 9) == 'READONLY ' then error(error_text(err), 0) end
end

-- Returns the reply of a script that changes nothing: a word, NOW and perhaps more. Fails on a replica.
local function refuse(word, rest)
  on_master()
  return word .. ' ' .. at .. (rest and ' ' .. rest or '')
end

-- Makes a key last for at least so many ms.
local function last_for(key, ms)
  if redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, whole(ms))
  end
end

-- Is redis.call for reading a key that this script may have deleted; nil if it did. While a Cluster's slot moves, a key that does not exist
-- on this node counts as the other node's, and reading it is an error. But a key that was here when the script began, and is not now,
-- exists nowhere.
local function look_at(...)
  local ok, reply = pcall(redis.call, ...)
  if ok then return reply end
  reply = error_text(reply)
  if not string.find(reply, 'non local key', 1, true) then error(reply, 0) end
  return nil
end
