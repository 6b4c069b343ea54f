-- prelude.lua: what every script begins with. A fragment, included by the others.
--
-- KEYS[1] the lock, KEYS[2] its queue, KEYS[3] the fence counter.
-- ARGV[1] flags: 'c' the server runs in Cluster mode, 'k' the key is shared with
--         other programs, 'r' it is Redisson's RLock (lock.lua), 'sMS+MS' Strict mode
--         (incarnation.lua); the script that includes this may know more.
-- ARGV[2] the caller's token.
--
-- The lock has a value: hf1:TOKEN:FENCE:GRANTED:CHAIN:INFO, and '+' at its end
-- while somebody waits. GRANTED is the server's time of the grant in ms, CHAIN is
-- 0, or on shared keys N@MS: N hand-overs in a row since MS; or N@MS@QUEUE (hand_over.lua).
-- The queue is a sorted set. Waiters score above 0, by arrival; a tombstone's
-- member is 'x:' and a token, its score the negated time (µs) at which it ends. 'd:' is
-- in the place of 'x:' where something was done that is not to be done twice.

-- include basics.lua

local token = ARGV[2]
local mine = 'hf1:' .. token .. ':'
local shared = string.find(flags, 'k', 1, true)

-- Makes the lock last for ttl ms at least, and returns for how long it does. It writes in
-- any case: WAIT tells of writes of its own connection only.
local function prolong(ttl)
  local pttl = math.max(redis.call('PTTL', KEYS[1]), ttl)
  -- mutants: prolong
  redis.call('PEXPIRE', KEYS[1], pttl)
  return pttl
end

-- Fails on a replica; changes nothing. For what is answered without writing: a replica
-- knows what was, and who is answered there goes on asking there. An expiry an hour ago is before that of any
-- key; one in a ms is not, in a key's last: Redis 7.0 counts it from a clock that goes on during a script.
local function on_master()
  -- mutants: master-asked
  local ok, err = pcall(redis.call, 'PEXPIRE', KEYS[1], -3600000, 'GT')
  if not ok and string.sub(message(err), 1, 9) == 'READONLY ' then
    error(message(err), 0)
  end
end

-- redis.call for reading a key that this script may have removed. In a Cluster's slot
-- that is on its way to another node, a key that is not here counts as that node's, and
-- reading it is an error; but what was here when the script began, and is not now, is
-- nowhere.
local function look_at(...)
  local ok, reply = pcall(redis.call, ...)
  if ok then
    return reply
  end
  reply = message(reply)
  if not string.find(reply, 'non local key', 1, true) then
    error(reply, 0)
  end
  return nil
end
