-- enqueue.lua: what acquire.lua and share_acquire.lua have in common: arguments, replies, and how to enter the queue of a lock.
-- requires prelude, queue

local try, look = string.find(flags, 't', 1, true), string.find(flags, 'l', 1, true)
local ttl, not_after, block, info = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]

local function granted(pttl, fence, n)
  return 'granted ' .. at .. ' ' .. pttl .. ' ' .. whole(fence) .. ' ' .. n
end

-- Reports whether an acquire comes too late. A tombstone ends at not-after, so a request that arrives at that time is late.
local function is_late()
  return not look and not_after > 0 and now >= not_after
end

-- A waiter that has been in the queue for so many µs may be dead: by then every live one has checked and subscribed again.
local old_age = 60000000

-- The first waiter, or the caller if the queue is empty; nil if it is not known. It is known only if it is the first entry of the queue and
-- not old. Then there are no tombstones, and no old waiters.
local head

-- Reads the first entry of the queue, which saves several other commands. Code that removes waiters afterwards must set head to nil.
local function read_head(member)
  local entry = redis.call('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES')
  -- mutants: head-of-queue
  if not entry[1] or tonumber(entry[2]) > now - old_age then
    head = entry[1] or member
  end
end

-- Removes some old waiters that are dead, wherever they stand. Without this the queue of a held lock could grow, if processes die in it.
local function drop_old(self)
  if head then return end
  local old = redis.call('ZCOUNT', KEYS[2], '0', whole(now - old_age))
  if old == 0 then return end
  -- Tombstones stand before the waiters. Each call looks at another part.
  local from = redis.call('ZCOUNT', KEYS[2], '-inf', '(0') + now % math.max(old - 19, 1)
  local some = redis.call('ZRANGE', KEYS[2], whole(from), whole(from + math.min(old, 20) - 1))
  for i, count in ipairs(hearers(some)) do
    if count == 0 and some[i] ~= self then
      redis.call('ZREM', KEYS[2], some[i])
    end
  end
end

-- Puts a waiter into the queue unless it is there, at its earlier score if it had one, and returns its score.
local function enqueue(member, earlier)
  local known = redis.call('ZSCORE', KEYS[2], member)
  local score = tonumber(known or earlier)
  if not score then
    local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
    score = math.max(now, (tonumber(last[2]) or 0) + 1)
  end
  if not known then
    redis.call('ZADD', KEYS[2], whole(score), member)
    drop_old(member)
  end
  -- The queue lasts longer than the longest time between two checks of a waiter. It gets more than that, so that few requests have to set
  -- it. A tombstone may need the queue for longer.
  if redis.call('PTTL', KEYS[2]) < 60000 then
    redis.call('PEXPIRE', KEYS[2], 70000)
  end
  -- If the waiter was in the queue before, nothing has been written yet. This makes a replica refuse, like on_master.
  if known or not head then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. whole(-now), '(0')
  end
  return score
end

-- Returns a waiter's position in the queue, from 1, and how many connections hear its channel. Dead waiters at the head do not count.
local function rank(member, score, channel)
  local n = redis.call('ZCOUNT', KEYS[2], '0', whole(score))
  if n <= 1 then return 1, receivers(channel) end
  local _, _, first = parse_waiter(head or first_waiter())
  local own, ahead = receivers(channel, first or '')
  if ahead == 0 then n = n - dead_ahead(100, member) end
  return math.max(n, 1), own
end

-- Returns the reply that the waiter is queued.
local function queued(member, channel, pttl, score, kind)
  local position, own = rank(member, score, channel)
  return 'queued ' .. at .. ' ' .. whole(pttl) .. ' ' .. whole(score) .. ' ' .. position .. ' ' .. own .. ' ' .. kind
end
