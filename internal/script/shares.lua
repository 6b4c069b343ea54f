-- shares.lua: a lock that several may hold at once. A fragment; needs prelude.lua, mint.lua
-- and queue.lua.
--
-- Each hold has a weight and an expiry of its own; all weights together stay within the
-- limit. A read-write lock is one whose writers weigh all of it, a semaphore one whose
-- limit is the number of its permits. The lock is a hash:
--   kind   rw or sem
--   limit  of the weights
--   used   their sum
--   next   server time (µs) before which no hold expires: those that have are swept out
--          when it comes, so that not every script has to look at every hold
--   last   the token of a late hold, to tell people about
--   fence  of a read-write lock: that of its last writer, or what its first reader was
--          given; readers that hold at the same time share it
--   fixed  1 when the limit was set for good (share_resize.lua): the hash stays then
--   TOKEN  a hold: EXPIRY:WEIGHT:FENCE:GRANTED:INFO, EXPIRY in µs, GRANTED in ms
local kind, limit, used, next_expiry, fixed, common_fence
local moved = false -- the queue has another first waiter than before, who must be told

local function parse_hold(value)
  local expiry, weight, fence = string.match(value, '^(%d+):(%d+):(%d+):')
  return tonumber(expiry), tonumber(weight), tonumber(fence)
end

-- Removes the holds whose time is over. The sums are made anew, from what is there. HDEL
-- has something to remove in any case: it works when the server is out of memory, and what
-- a script writes after its first write does, too.
local function sweep()
  local all = redis.call('HGETALL', KEYS[1])
  local gone, there = {'next'}, 0
  used, next_expiry = 0, 9e15
  for i = 1, #all, 2 do
    local expiry, weight = parse_hold(all[i + 1])
    if expiry and expiry <= now then
      gone[#gone + 1] = all[i]
    elseif expiry then
      there = there + 1
      used = used + weight
      next_expiry = math.min(next_expiry, expiry)
    end
  end
  if there == 0 and not fixed then
    redis.call('DEL', KEYS[1])
    common_fence = nil
    return
  end
  for i = 1, #gone, 100 do
    redis.call('HDEL', KEYS[1], unpack(gone, i, math.min(i + 99, #gone)))
  end
  redis.call('HSET', KEYS[1], 'used', whole(used), 'next', whole(next_expiry))
end

-- Reads the lock, for a caller that believes it to be of this kind and limit, or knows
-- neither. Returns the hold of the token, if it is there.
local function load(expected, wanted)
  local f = redis.call('HMGET', KEYS[1], 'kind', 'limit', 'used', 'next', 'fixed', 'fence', token)
  kind, limit, used, next_expiry, fixed = f[1] or expected, tonumber(f[2] or wanted), tonumber(f[3] or 0), tonumber(f[4] or 9e15), f[5]
  common_fence = f[6] and tonumber(f[6])
  if not f[1] and redis.call('EXISTS', KEYS[1]) == 1 or expected and kind ~= expected then
    error('BADKIND the key holds another kind of lock, or something else', 0)
  end
  local hold = f[7]
  if now >= next_expiry then
    sweep()
    if used == 0 and not fixed then
      limit = wanted or limit
    end
    local expiry = hold and parse_hold(hold)
    hold = expiry and expiry > now and hold
  end
  if wanted and not fixed and limit ~= wanted then
    error('BADLIMIT the semaphore has ' .. whole(limit) .. ' permits for those who use it now, not ' .. whole(wanted), 0)
  end
  return hold
end

local function room(weight)
  return used + weight <= limit
end

-- The fence of a reader: that of the readers that are there, or of the last grant to a
-- writer, or one that is not below it.
local function readers_fence()
  if common_fence then
    return common_fence, 1
  end
  local last = redis.call('GET', KEYS[3])
  if last and string.match(last, '^%d+$') then
    return tonumber(last), 1
  end
  return mint(1)
end

-- Makes the key last for as long as its holds.
local function outlast(ttl)
  if not fixed and redis.call('PTTL', KEYS[1]) < ttl then
    redis.call('PEXPIRE', KEYS[1], ttl)
  end
end

local function write_hold(owner, expiry, weight, fence, granted, info)
  next_expiry = math.min(next_expiry, expiry)
  redis.call('HSET', KEYS[1], 'kind', kind, 'limit', whole(limit), 'used', whole(used), 'next', whole(next_expiry),
    'last', owner, 'fence', whole(common_fence or fence), owner, whole(expiry) .. ':' .. whole(weight) .. ':' .. whole(fence) .. ':' .. granted .. ':' .. info)
end

-- Adds a hold, for which there is room. Returns its fence, and how many are reserved.
local function admit(owner, weight, info, ttl, block)
  local fence, n
  if kind == 'rw' and weight < limit then
    fence, n = readers_fence()
  else
    fence, n = mint(block)
  end
  common_fence = fence
  used = used + weight
  write_hold(owner, now + ttl * 1000, weight, fence, whole(math.floor(now / 1000)), info)
  outlast(ttl)
  return fence, n
end

-- Removes a hold.
local function dismiss(owner, hold)
  local _, weight = parse_hold(hold)
  redis.call('HDEL', KEYS[1], owner)
  used = used - weight
  if used > 0 or fixed then
    redis.call('HSET', KEYS[1], 'used', whole(used))
  else
    redis.call('DEL', KEYS[1])
    next_expiry, common_fence = 9e15, nil
  end
end

-- Makes a hold last for ttl ms at least, and returns for how long it does. HDEL comes
-- first for the reason for which it does in sweep.
local function prolong_hold(hold, ttl)
  local expiry, weight, fence = parse_hold(hold)
  local granted, info = string.match(hold, '^%d+:%d+:%d+:(%d+):(.*)$')
  expiry = math.max(expiry, now + ttl * 1000)
  local pttl = math.floor((expiry - now) / 1000)
  redis.call('HDEL', KEYS[1], 'last')
  write_hold(token, expiry, weight, fence, granted, info)
  outlast(pttl)
  return pttl
end

-- Gives those who wait, in their order, what there is room for: readers that stand together
-- all at once. A waiter that is dead is passed, also when there is no room for it: that can
-- be so for long. Returns fence and block when self, a member of the queue that is
-- answered directly, for ttl ms, was among them.
-- As in serve of hand_over.lua, entries are removed before anything else, and nothing is
-- announced before it is true.
local function serve(self, ttl, block)
  local fence, n
  while true do
    local member = first_waiter()
    if not member then
      settle()
      return fence, n
    end
    local owner, claim, channel, rest = waiter(member)
    local weight, info = string.match(rest or '', '^(%d+)\n(.*)$')
    weight = tonumber(weight)
    if weight and weight <= limit and not room(weight) and (member == self or receivers(channel) > 0) then
      if moved then
        stand_by(member, next_expiry)
      end
      return fence, n
    end
    redis.call('ZREM', KEYS[2], member)
    moved = true
    if not weight or weight > limit then
      stand_by(member, now) -- to find out
    elseif member == self then
      fence, n = admit(owner, weight, info, ttl, block)
    elseif receivers(channel) > 0 then
      local f = admit(owner, weight, info, tonumber(claim), 1)
      local heard = send(channel, 'hf1 share ' .. owner .. ' ' .. whole(now) .. ' ' .. claim .. ' ' .. whole(f) .. ' ' .. KEYS[1])
      if cluster and heard == 0 then
        dismiss(owner, whole(now) .. ':' .. whole(weight) .. ':0:')
      end
    end
  end
end

-- Of some holder, as a mutex's value is written, with what is left in ms: ours, if any, or
-- the latest.
local function sample()
  local owner = redis.call('HGET', KEYS[1], 'last')
  local hold = owner and redis.call('HGET', KEYS[1], owner)
  if not hold then
    local all = redis.call('HGETALL', KEYS[1])
    for i = 1, #all, 2 do
      if parse_hold(all[i + 1]) then
        owner, hold = all[i], all[i + 1]
      end
    end
  end
  if not hold then
    return nil
  end
  local expiry, _, fence = parse_hold(hold)
  local granted, info = string.match(hold, '^%d+:%d+:%d+:(%d+):(.*)$')
  return math.floor((expiry - now) / 1000), 'hf1:' .. owner .. ':' .. whole(fence) .. ':' .. granted .. ':0:' .. info
end
