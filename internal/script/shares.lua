-- shares.lua: a lock that several may hold at once. A fragment; needs prelude.lua, mint.lua,
-- queue.lua and parties.lua.
--
-- Each hold has a weight and an expiry of its own; all weights together stay within the
-- limit. A read-write lock is one whose writers weigh all of it, a semaphore one whose
-- limit is the number of its permits. An owned lock is one that any number of holds of one
-- owner have: used counts them. Those who have joined a latch or a barrier hold a share of
-- it, too (parties.lua). The lock is a hash:
--   kind   rw, sem, own, latch or bar
--   limit  of the weights; 0 when whoever comes next says what it is
--   used   their sum
--   next   server time (µs) before which no hold expires: those that have are swept out
--          when it comes, so that not every script has to look at every hold
--   last   the token of a late hold, to tell people about
--   fence  of the latest grant; readers that hold a read-write lock at the same time share
--          it, and so do the holds of an owner
--   owner  of an owned lock: '=' and the owner's id, which so cannot look like a hold
--   fixed  1 when the limit was set for good (share_resize.lua): the hash stays then
--   TOKEN  a hold: EXPIRY:WEIGHT:FENCE:GRANTED:INFO, EXPIRY in µs, GRANTED in ms
local kind, limit, used, next_expiry, fixed, common_fence, holder
local seats -- of a latch: how many parties are left
local everything = 1000000000 -- the limit where none is to be reached
local moved = false -- the queue has another first waiter than before, who must be told

local function parse_hold(value)
  local expiry, weight, fence = string.match(value, '^(%d+):(%d+):(%d+):')
  return tonumber(expiry), tonumber(weight), tonumber(fence)
end

-- Lets the script write when the server is out of memory: HDEL works then, and so does
-- what comes after a script's first write.
local function insist()
  redis.call('HDEL', KEYS[1], '')
end

-- What a hold says of its holder.
local function info_of(hold)
  return string.match(hold, '^%d+:%d+:%d+:%d+:(.*)$')
end

-- Whether the hash is kept when nobody holds anything.
local function stays()
  return fixed or kind == 'latch'
end

local function remove_fields(fields)
  for i = 1, #fields, 100 do
    redis.call('HDEL', KEYS[1], unpack(fields, i, math.min(i + 99, #fields)))
  end
end

-- Removes the holds whose time is over. The sums are made anew, from what is there.
local function sweep()
  local all = redis.call('HGETALL', KEYS[1])
  local gone, marks, there, dead = {}, {}, 0, nil
  used, next_expiry = 0, 9e15
  for i = 1, #all, 2 do
    local expiry, weight = parse_hold(all[i + 1])
    -- mutants: share-expired
    if expiry and expiry <= now then
      gone[#gone + 1] = all[i]
      marks[#marks + 1] = '@' .. all[i]
      dead = all[i + 1]
    elseif expiry then
      there = there + 1
      used = used + weight
      next_expiry = math.min(next_expiry, expiry)
    end
  end
  if there == 0 and not stays() then
    redis.call('DEL', KEYS[1])
    common_fence = nil
    return
  end
  insist()
  remove_fields(gone)
  redis.call('HSET', KEYS[1], 'used', whole(used), 'next', whole(next_expiry))
  if dead then
    if kind == 'bar' then
      remove_fields(marks)
    end
    depart(kind, #gone, 'died', info_of(dead))
  end
end

-- Reads the lock, for a caller that believes it to be of this kind and limit, or knows
-- neither. Returns the hold of the token, if it is there.
local function load(expected, wanted)
  local f = redis.call('HMGET', KEYS[1], 'kind', 'limit', 'used', 'next', 'fixed', 'fence', token, 'owner')
  kind, limit, used, next_expiry, fixed = f[1] or expected, tonumber(f[2] or wanted), tonumber(f[3] or 0), tonumber(f[4] or 9e15), f[5]
  common_fence = f[6] and tonumber(f[6])
  holder = f[8] and string.sub(f[8], 2)
  if limit == 0 then
    limit = wanted
  end
  local known = f[1] or redis.call('EXISTS', KEYS[1]) == 0
  -- Whoever may publish chooses tokens, such as the name of another field.
  local expiry = f[7] and parse_hold(f[7])
  if known and now >= next_expiry then
    sweep()
    if used == 0 and not stays() then
      kind, limit = expected or kind, wanted or limit
    end
  end
  if not known or expected and kind ~= expected then
    error('BADKIND the key holds another kind of lock, or something else', 0)
  end
  if wanted and not fixed and limit ~= wanted then
    if kind == 'latch' or kind == 'bar' then
      error('BADPARTIES it has ' .. whole(limit) .. ' parties now, not ' .. whole(wanted), 0)
    end
    error('BADLIMIT the semaphore has ' .. whole(limit) .. ' permits for those who use it now, not ' .. whole(wanted), 0)
  end
  if kind == 'latch' then
    if wanted and not f[1] then
      begin_count(wanted)
    end
    seats = tonumber(redis.call('HGET', KEYS[1], 'count') or 0)
  end
  return expiry and expiry > now and f[7]
end

-- Whether the owner of that name has the lock.
local function has(who)
  -- mutants: same-owner
  return kind == 'own' and used > 0 and who == holder
end

local function room(weight, who)
  if kind == 'own' then
    return used == 0 or has(who)
  elseif seats then
    return used + weight <= seats
  end
  -- mutants: room
  return used + weight <= limit
end

-- What a waiter asks for: its weight, its info, and of an owned lock the owner, which the
-- weight is followed by.
local function wish(rest)
  local weight, info = string.match(rest or '', '^(%d+)\n(.*)$')
  local who
  if weight and kind == 'own' then
    who, info = string.match(info, '^([^\n]*)\n(.*)$')
  end
  return info and tonumber(weight), info, who
end

-- Makes the key last for as long as its holds.
local function outlast(ttl)
  -- mutants: outlast-shares
  if not fixed and redis.call('PTTL', KEYS[1]) < ttl then
    redis.call('PEXPIRE', KEYS[1], ttl)
  end
end

local function write_hold(owner, expiry, weight, fence, granted, info)
  next_expiry = math.min(next_expiry, expiry)
  redis.call('HSET', KEYS[1], 'kind', kind, 'limit', whole(limit or 0), 'used', whole(used), 'next', whole(next_expiry),
    'last', owner, 'fence', whole(common_fence or fence), owner, whole(expiry) .. ':' .. whole(weight) .. ':' .. whole(fence) .. ':' .. granted .. ':' .. info)
  if kind == 'own' then
    redis.call('HSET', KEYS[1], 'owner', '=' .. (holder or ''))
  end
end

-- Adds a hold, for which there is room. Returns its fence, and how many are reserved.
local function admit(owner, weight, info, ttl, block, who)
  local fence, n
  if (has(who) or kind == 'rw' and weight < limit) and common_fence then
    -- An owner's holds are one grant. And readers have one fence: with one for each, those
    -- who come first could not read a resource any more that others have read since. It is
    -- above the last writer's, so that it cannot write any more.
    fence, n = common_fence, 1
  else
    fence, n = mint(block)
  end
  common_fence, holder = fence, who
  -- mutants: add-weight
  used = used + weight
  write_hold(owner, now + ttl * 1000, weight, fence, string.sub(at, 1, -4), info)
  if kind == 'bar' then
    enter(owner)
  end
  outlast(ttl)
  return fence, n
end

-- Removes a hold. The hash stays until tidy: in a Cluster's slot that is on its way to
-- another node, a key that was removed could not be written again, for who comes next.
local function dismiss(owner, hold)
  local _, weight = parse_hold(hold)
  redis.call('HDEL', KEYS[1], owner, '@' .. owner)
  used = used - weight
  if used == 0 then
    next_expiry, common_fence = 9e15, nil
  end
  redis.call('HSET', KEYS[1], 'used', whole(used), 'next', whole(next_expiry))
end

-- Removes a hash without holds.
local function tidy()
  if used == 0 and not stays() then
    redis.call('DEL', KEYS[1])
  end
end

-- Makes a hold last for ttl ms at least, and returns for how long it does.
local function prolong_hold(hold, ttl)
  local expiry, weight, fence = parse_hold(hold)
  local granted, info = string.match(hold, '^%d+:%d+:%d+:(%d+):(.*)$')
  expiry = math.max(expiry, now + ttl * 1000)
  local pttl = math.floor((expiry - now) / 1000)
  insist()
  write_hold(token, expiry, weight, fence, granted, info)
  outlast(pttl)
  return pttl
end

-- Tells waiters of the owner who has the lock now to look: it is theirs, too, if they may have
-- as many holds (share_acquire.lua). Those too far back find out by themselves.
local function call_others()
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', '100')) do
    local _, _, _, rest = waiter(member)
    local _, _, who = wish(rest)
    if has(who) then
      stand_by(member, now)
    end
  end
end

-- Gives those who wait, in their order, what there is room for: readers that stand together
-- all at once. A waiter that is dead is passed, also when there is no room for it: that can
-- be so for long. Returns fence and block when self, a member of the queue that is
-- answered directly, for ttl ms, was among them.
-- As in serve of hand_over.lua, entries are removed before anything else, and nothing is
-- announced before it is true.
local function serve(self, ttl, block)
  local fence, n
  local opened = false -- an owner has come to have the lock
  while true do
    local member = first_waiter()
    if not member then
      settle()
      return fence, n
    end
    local owner, claim, channel, rest = waiter(member)
    local weight, info, who = wish(rest)
    if weight and weight <= limit and (has(who) or not room(weight, who)) and (member == self or receivers(channel) > 0) then
      if opened or has(who) then
        call_others()
      end
      if moved and not has(who) then
        stand_by(member, next_expiry)
      end
      return fence, n
    end
    opened = opened or kind == 'own' and used == 0
    redis.call('ZREM', KEYS[2], member)
    moved = true
    if not weight or weight > limit then
      stand_by(member, now) -- to find out
    elseif member == self then
      fence, n = admit(owner, weight, info, ttl, block, who)
    elseif receivers(channel) > 0 then
      local f = admit(owner, weight, info, tonumber(claim), 1, who)
      local heard = send(channel, 'hf1 ' .. kind .. ' ' .. owner .. ' ' .. whole(now) .. ' ' .. claim .. ' ' .. whole(f) .. ' ' .. KEYS[1])
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
