-- chain.lua: what a value says of the hand-overs before it.
-- Programs that poll a shared key see it free only if nobody is handed it. So its value counts the hand-overs in a row, in its CHAIN. After
-- too many, release.lua deletes the lock, and a gap begins, during which no client of ours acquires it.
-- requires prelude

-- Names the queue that the lock's holder serves, for the end of a chain: clients with another prefix have another queue for the same exact
-- key. Empty if the queue's key is the lock's key and one word more.
local function queue_name()
  if string.match(KEYS[2], '^(.*):') == KEYS[1] then return '' end
  return '@' .. string.sub(redis.sha1hex(KEYS[2]), 1, 8)
end

-- Reports whether the holder with that value, of ours, may serve another queue than this one: when it releases, it tells nobody here.
-- Values of earlier versions do not name the queue.
local function serves_others(value)
  return (string.match(value, '^hf2:[^:]*:%d+:%d+:%d+@%d+(@%x+):') or '') ~= queue_name()
end

-- Returns the chain of a lock that is acquired without a hand-over.
local function new_chain()
  return shared and '0@' .. string.sub(at, 1, -4) .. queue_name() or '0'
end

-- The length of a gap in ms. It is an entry of the queue, 'gap', scored with the negated server time (µs) at which the gap ends.
local gap_length = 10

-- Returns what is left of a gap, in ms. More than a whole gap means that the clock went back.
local function gap()
  local due = shared and look_at('ZSCORE', KEYS[2], 'gap')
  local left = due and math.ceil((-due - now) / 1000) or 0
  return left > 0 and left <= gap_length and left or 0
end
