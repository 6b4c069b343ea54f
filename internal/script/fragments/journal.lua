-- journal.lua: the record of what operators did to holders of locks, by which those holders learn of it.
--
-- The journal is a sorted set, scored by server time (µs). An entry is three lines:
--   hf1 WHAT ID FENCE RAISED KIND KEY
--   NOTE
--   PTTL WEIGHT VALUE
-- WHAT is 'broken' or 'revoked'. ID names the request. FENCE is that of the holder, RAISED the lock's fence after a break, or
-- 0; KIND that of the lock, and KEY its key. NOTE is what the operator says, as JSON: who it is, and why. The last line is
-- the holder, in the form in which status.lua writes one, without its token; it is empty when somebody was asked only.
--
-- requires request

-- How many entries are kept, at the least.
local journal_length = 1000

-- Publishes that there is, or will be, an entry. Those who miss it read the journal when they are subscribed again.
local function announce(channel, what, fence, key, note)
  redis.call(cluster and 'SPUBLISH' or 'PUBLISH', channel, 'hf1 ' .. what .. ' ' .. at .. ' ' .. fence .. ' ' .. key .. '\n' .. note)
end

-- Later than this by so many µs, an entry is none: somebody else has written it. Others may be later than now, if the clock
-- went back.
local longest_ahead = 86400000000

-- Adds an entry, after all others. It can be written although the server is out of memory: removing works then, and so does
-- everything after a script's first write.
local function write_journal(journal, what, id, fence, raised, kind, key, note, holder)
  redis.call('ZREMRANGEBYSCORE', journal, whole(now + longest_ahead), '+inf')
  local last = redis.call('ZRANGE', journal, '-1', '-1', 'WITHSCORES')[2]
  -- mutants: journal-order
  local score = math.max(now, tonumber(last or 0) + 1)
  redis.call('ZADD', journal, whole(score), table.concat({ 'hf1 ' .. what .. ' ' .. id .. ' ' .. fence .. ' ' .. raised .. ' ' .. kind .. ' ' .. key, note, holder }, '\n'))
  if redis.call('ZCOUNT', journal, '-inf', '+inf') >= journal_length + 100 then
    redis.call('ZREM', journal, unpack(redis.call('ZRANGEBYSCORE', journal, '-inf', '+inf', 'LIMIT', '0', '100')))
  end
end
