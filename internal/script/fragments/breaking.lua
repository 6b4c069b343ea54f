-- breaking.lua: what the scripts that break locks share. ARGV as break.lua.
-- KEYS[4], or of a lock that several may hold KEYS[5], is the journal. In Cluster mode it is in another slot: then there is no such key,
-- and whoever breaks the lock writes the entry (note.lua).
-- requires prelude, mint, queue, tombstone, journal

local broken_grant, not_after = ARGV[3], tonumber(ARGV[4])

-- Reports whether the grant of that token, which may be nil, is to be broken. People know a token by its first 8 characters.
local function is_meant(holder_token)
  return holder_token and string.sub(holder_token, 1, 8) == broken_grant
end

-- Returns the reply, from behind its time, of an earlier copy of the request that has broken the lock. All copies have the same not-after.
local function replied_before()
  local begin, at_end = 'd:' .. token .. '\n', whole(-not_after)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], at_end, at_end)) do
    if string.sub(member, 1, #begin) == begin then return string.sub(member, #begin + 1) end
  end
end

-- Does what the server may refuse, before anything has changed: it asks whether the first waiter is alive, looks at the journal, which may
-- be another program's key, and tells the holder. Then it removes nothing: this is allowed if the server is out of memory, and so is
-- everything after a script's first write. fence is the holder's.
local function prepare(fence, journal)
  hearers({ first_waiter() })
  if not cluster then
    -- mutants: break-journal-first
    redis.call('ZCOUNT', journal, '0', '0')
    announce(ARGV[7], 'broken', broken_grant, fence, KEYS[1], ARGV[6])
  end
  redis.call('ZREM', KEYS[2], '')
end

-- Raises the lock's fence, ends the holder's token, records the break and returns the reply. fence and pttl are the holder's. The reply
-- describes the holder by a line of pttl and described.
local function record_break(holder_token, fence, pttl, described, journal)
  -- mutants: break-raise
  local raised = mint(1)
  -- Only the holder knows its not-after, so late copies of its acquire are refused until its lease would end, but for at least a minute.
  -- mutants: break-tombstone
  remember('x:' .. holder_token, now + math.max(pttl, 60000) * 1000)
  local holder = whole(pttl) .. ' ' .. described
  local reply = whole(raised) .. '\n' .. holder
  remember('d:' .. token .. '\n' .. reply, not_after)
  if not cluster then
    write_journal(journal, 'broken', token, broken_grant, fence, whole(raised), ARGV[5], KEYS[1], ARGV[6], holder)
  end
  return 'broken ' .. at .. ' ' .. reply
end
