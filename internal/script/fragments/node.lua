-- node.lua: a node, one of the servers of a quorum.
-- A node's counter must not be below any fence that a majority has granted, or fences would repeat. A node that restarted may have lost
-- part of its counter. It grants nothing until its counter was raised to that of a majority of the others, read after its quarantine. The
-- caught-up mark names the incarnation for which that was done. Otherwise it is ID?SINCE: the incarnation, and the time at which the node
-- was found to be behind. The time matters because data can also be lost without a restart, and a counter read before such a loss is not
-- enough. A '+' at the end says that the node still had its mark when it was found to be behind, so that it has its data, though perhaps
-- not the latest.
-- requires request, incarnation, mint

local caught_up = KEYS[4]

-- Returns the node's caught-up mark, brought up to date. id is the present incarnation.
local function standing(id)
  local known = redis.call('GET', caught_up)
  if known ~= id and string.sub(known or '', 1, #id + 1) ~= id .. '?' then
    local kept = known and (string.sub(known, -1) == '+' or not string.find(known, '?', 1, true))
    known = id .. '?' .. at .. (kept and '+' or '')
    redis.call('SET', caught_up, known)
  end
  return known
end

local function behind(stands)
  return 'behind ' .. at .. ' ' .. stands
end

-- Returns the reply of a node that counts for nothing now, and its caught-up mark if it is behind; nil if the node counts.
local function refusal()
  -- mutants: node-refusal
  local rest, _, id = quarantine()
  if rest > 0 then return quarantined(rest) end
  local stands = standing(id)
  if stands ~= id then return behind(stands), stands end
end

-- Returns the counter as a number, or nil if there is none.
local function read_counter()
  local last = checked(redis.pcall('XREVRANGE', counter, '+', '-', 'COUNT', '1'))[1]
  return last and believed((fence_of(last[1])))
end

-- Raises the counter to at least n, and returns it.
local function raise_counter(n)
  local last = read_counter() or 0
  if last < believed(n) then
    raise_to(n)
  end
  return math.max(last, n)
end
