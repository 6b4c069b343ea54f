-- journal.lua: records what operators did to holders. Holders learn of it from this record, a sorted set, scored by server time (µs). An
-- entry is three lines:
--   hf2 WHAT ID GRANT FENCE RAISED KIND KEY
--   NOTE
--   PTTL WEIGHT VALUE
-- WHAT is 'broken' or 'revoked'. ID names the request. GRANT is the holder's grant id, FENCE its fence, or 0 if that is not known. RAISED
-- is the lock's fence after a break, or 0. KIND and KEY are the lock's. NOTE is JSON: who the operator is, and why. The last line is the
-- broken holder, as status.lua tells one, but with GRANT in place of its token; it is empty if the holder was only asked.
-- requires request

-- How many entries are kept at least.
local journal_length = 1000

-- Publishes an entry that is written in this script. Clients that miss the message read the journal when they are subscribed again.
local function announce(channel, what, grant, fence, key, note)
  redis.call(cluster and 'SPUBLISH' or 'PUBLISH', channel, table.concat({ 'hf2', what, at, grant, fence, key }, ' ') .. '\n' .. note)
end

-- An entry that leads the clock by more µs than this is another program's. After the clock went back, ours may lead it, too.
local longest_ahead = 86400000000

-- Adds an entry after all others. It removes first: that, and so all that follows, works even if the server is out of memory.
local function write_journal(journal, what, id, grant, fence, raised, kind, key, note, holder)
  redis.call('ZREMRANGEBYSCORE', journal, whole(now + longest_ahead), '+inf')
  local last = redis.call('ZRANGE', journal, '-1', '-1', 'WITHSCORES')[2]
  -- mutants: journal-order
  local score = math.max(now, tonumber(last or 0) + 1)
  local head = table.concat({ 'hf2', what, id, grant, fence, raised, kind, key }, ' ')
  redis.call('ZADD', journal, whole(score), table.concat({ head, note, holder }, '\n'))
  if redis.call('ZCOUNT', journal, '-inf', '+inf') >= journal_length + 100 then
    redis.call('ZREM', journal, unpack(redis.call('ZRANGEBYSCORE', journal, '-inf', '+inf', 'LIMIT', '0', '100')))
  end
end
