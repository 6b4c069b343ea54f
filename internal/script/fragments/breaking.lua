-- breaking.lua: what the scripts that break a lock have in common.
--
-- KEYS[4], or of a lock that several may hold KEYS[5], is the journal. In Cluster mode it is in another slot: then there is
-- no such key, and whoever breaks the lock writes the entry (note.lua).
--
-- requires prelude
-- requires queue
-- requires tombstone
-- requires journal

local broken_fence, not_after = ARGV[3], tonumber(ARGV[4])

-- Returns what an earlier copy of the request has replied after the time; nil if none has broken the lock. All copies have the
-- same not-after.
local function replied_before()
  local begin, at_end = 'd:' .. token .. '\n', whole(-not_after)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], at_end, at_end)) do
    if string.sub(member, 1, #begin) == begin then
      return string.sub(member, #begin + 1)
    end
  end
end

-- Does first what may be refused: it looks at the journal, which may be another program's key, tells the holder, and asks
-- whether the first waiter is alive, before anything has changed. Then it lets the script write although the server is out of memory: ZREM works then, and so does everything after a
-- script's first write.
local function prepare(journal)
  hearers({ first_waiter() })
  if not cluster then
    redis.call('ZCOUNT', journal, '0', '0')
    announce(ARGV[7], 'broken', broken_fence, KEYS[1], ARGV[6])
  end
  redis.call('ZREM', KEYS[2], '')
end

-- Returns until when a late copy of a broken holder's acquire has to be refused. How late that may come only the holder knows; no
-- later than its lease could have ended.
local function grave_until(pttl)
  return now + math.max(pttl, 60000) * 1000
end

-- Records the break. raised is the lock's fence since then, holder the line that describes the holder. Returns the reply.
local function record_break(raised, holder, journal)
  local reply = whole(raised) .. '\n' .. holder
  remember('d:' .. token .. '\n' .. reply, not_after)
  if not cluster then
    write_journal(journal, 'broken', token, broken_fence, whole(raised), ARGV[5], KEYS[1], ARGV[6], holder)
  end
  return 'broken ' .. whole(now) .. ' ' .. reply
end

-- Returns the reply to a request that does nothing.
local function nothing(reply)
  on_master()
  return reply
end
