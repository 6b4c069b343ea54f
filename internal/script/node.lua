-- node.lua: one of the servers of a quorum. A fragment; needs basics.lua and incarnation.lua. The
-- last of KEYS are the fence counter, what is caught up, and the incarnation mark.
--
-- A node's fence counter must not be below what any majority has granted, or fences would
-- repeat: one that restarted has perhaps lost some of it, and grants nothing before its
-- counter has been raised to that of a majority of the others, read after its quarantine.
-- What is caught up says for which incarnation that was done; or ID?SINCE, that it was found to be
-- behind at that time: data can be lost again without a restart, and what was read before
-- is not good for that. A '+' after it says that the node still knew what it had been caught up for, and so has
-- its data, though perhaps not the latest.

-- include believable.lua

local counter, caught_up = KEYS[#KEYS - 2], KEYS[#KEYS - 1]

local function resting(rest)
  return 'quarantined ' .. whole(now) .. ' ' .. rest
end

-- How the node stands, as in what is caught up, which is known if it was read. id is the present
-- incarnation.
local function standing(id, known)
  known = known or redis.call('GET', caught_up)
  if known ~= id and string.sub(known or '', 1, #id + 1) ~= id .. '?' then
    local kept = known and (string.sub(known, -1) == '+' or not string.find(known, '?', 1, true))
    known = id .. '?' .. whole(now) .. (kept and '+' or '')
    redis.call('SET', caught_up, known)
  end
  return known
end

local function behind(stands)
  return 'behind ' .. whole(now) .. ' ' .. stands
end

-- Why the node counts for nothing now, as an answer, and how it stands if it is behind; nil if it counts. mark and
-- known are what was read of the mark and of what is caught up, if that was done.
local function refusal(mark, known)
  -- mutants: node-refusal
  local rest, _, id = quarantine(mark)
  if rest > 0 then
    return resting(rest)
  end
  local stands = standing(id, known)
  if stands ~= id then
    return behind(stands), stands
  end
end

-- The counter, which is last if that was read; false if there is none.
local function read_counter(last)
  last = last or redis.call('GET', counter)
  return last and believed(counter, last)
end

local function store_counter(n)
  redis.call('SET', counter, whole(n))
end

-- Makes the counter at least n, and returns it.
local function raise_counter(n)
  local most = math.max(read_counter() or 0, believed(counter, whole(n)))
  store_counter(most)
  return most
end
