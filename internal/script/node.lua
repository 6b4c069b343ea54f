-- node.lua: one of the servers of a quorum. A fragment; needs prelude.lua and incarnation.lua.
--
-- A node's fence counter must not be below what any majority has granted, or fences would
-- repeat: one that restarted has perhaps lost some of it, and grants nothing before its
-- counter has been raised to that of a majority of the others, read after its quarantine.
-- KEYS[4] says for which incarnation that was done; or ID?SINCE, that it was found to be
-- behind at that time: data can be lost again without a restart, and what was read before
-- is not good for that.
local caught_up = KEYS[4]

local function resting(rest)
  return 'quarantined ' .. whole(now) .. ' ' .. rest
end

-- How the node stands, as in KEYS[4]. id is the incarnation of the mark, which quarantine
-- has made the present one.
local function standing(id)
  local known = redis.call('GET', caught_up)
  if known ~= id and string.sub(known or '', 1, #id + 1) ~= id .. '?' then
    known = id .. '?' .. whole(now)
    redis.call('SET', caught_up, known)
  end
  return known
end

local function behind(stands)
  return 'behind ' .. whole(now) .. ' ' .. stands
end

-- Why the node counts for nothing now, as an answer; nil if it counts.
local function refusal()
  local rest = quarantine()
  if rest > 0 then
    return resting(rest)
  end
  local id = read_mark()
  local stands = standing(id)
  if stands ~= id then
    return behind(stands)
  end
end

local function read_counter()
  local last = redis.call('GET', KEYS[3])
  -- Above 9e15 a Lua number no longer counts by ones.
  if last and (not string.match(last, '^%d+$') or #last > 16 or tonumber(last) > 9e15) then
    error('BADFENCE the fence counter is not a number that fences can follow', 0)
  end
  return last and tonumber(last)
end

-- Makes the counter at least n, and returns it.
local function raise_counter(n)
  local counter = math.max(read_counter() or 0, n)
  redis.call('SET', KEYS[3], whole(counter))
  return counter
end
