-- shares.lua: a lock that several may hold at once. A fragment; needs prelude.lua, mint.lua,
-- queue.lua and parties.lua.
--
-- KEYS[4], or of two KEYS the second: the index of its holds, a sorted set of their tokens,
-- scored by when they expire.
--
-- Each hold has a weight and an expiry of its own; all weights together stay within the
-- limit. A read-write lock is one whose writers weigh all of it, a semaphore one whose
-- limit is the number of its permits. An owned lock is one that any number of holds of one
-- owner have: used counts them. Those who have joined a latch or a barrier hold a share of
-- it, too (parties.lua). The lock is a hash:
--   kind   rw, sem, own, latch or bar
--   limit  of the weights; 0 when whoever comes next says what it is
--   used   their sum
--   holds  how many there are
--   next   server time (µs) before which no hold expires: those that have are swept out
--          when it comes
--   last   the token of a late hold, to tell people about
--   fence  of the latest grant; readers that hold a read-write lock at the same time share
--          it, and so do the holds of an owner
--   owner  of an owned lock: '=' and the owner's id, which so cannot look like a hold
--   fixed  1 when the limit was set for good (share_resize.lua): the hash stays then
--   TOKEN  a hold: EXPIRY:WEIGHT:FENCE:GRANTED:INFO, EXPIRY in µs, GRANTED in ms
local kind, limit, used, holds, next_expiry, fixed, common_fence, holder
local expiries = KEYS[4] or KEYS[2]
local dismissed = {} -- tokens whose holds this script has removed, but not yet from the index
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

-- Calls a command on a key with all arguments, some at a time: Lua's stack is small.
local function in_parts(command, key, arguments)
  for i = 1, #arguments, 200 do
    redis.call(command, key, unpack(arguments, i, math.min(i + 199, #arguments)))
  end
end

-- Makes the index and the sums anew, from all holds, if some are not in the index: it was
-- evicted, or deleted by hand. One that has more does no harm.
local function complete_index()
  if redis.call('ZCOUNT', expiries, '-inf', '+inf') >= holds then
    return
  end
  local cursor, scores, known = '0', {}, {}
  used, holds = 0, 0
  repeat
    local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', '1000')
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local owner, expiry, weight = page[2][i], parse_hold(page[2][i + 1])
      if expiry and not known[owner] then
        known[owner] = true
        used, holds = used + weight, holds + 1
        scores[#scores + 1], scores[#scores + 2] = whole(expiry), owner
      end
    end
  until cursor == '0'
  in_parts('ZADD', expiries, scores)
  redis.call('PEXPIRE', expiries, whole(math.max(redis.call('PTTL', KEYS[1]), stays() and latch_rest or 0)))
end

-- Removes holds whose time is over, as many as a script may.
local function sweep()
  insist()
  complete_index()
  local over = redis.call('ZRANGEBYSCORE', expiries, '-inf', at, 'LIMIT', '0', most)
  local gone, marks, dead = {}, {}, nil
  for i = 1, #over, 200 do
    local last = math.min(i + 199, #over)
    for j, hold in ipairs(redis.call('HMGET', KEYS[1], unpack(over, i, last))) do
      local expiry, weight = parse_hold(hold or '')
      -- mutants: share-expired
      if expiry and expiry <= now then
        gone[#gone + 1] = over[i + j - 1]
        marks[#marks + 1] = '@' .. over[i + j - 1]
        used, dead = used - weight, hold
      end
    end
  end
  holds = holds - #gone
  if holds == 0 and not stays() then
    redis.call('DEL', KEYS[1], expiries)
    next_expiry, common_fence = 9e15, nil
    return
  end
  in_parts('HDEL', KEYS[1], gone)
  in_parts('ZREM', expiries, over)
  next_expiry = tonumber(redis.call('ZRANGE', expiries, '0', '0', 'WITHSCORES')[2] or 9e15)
  redis.call('HSET', KEYS[1], 'used', whole(used), 'holds', whole(holds), 'next', whole(next_expiry))
  if dead then
    if kind == 'bar' then
      in_parts('HDEL', KEYS[1], marks)
    end
    depart(kind, #gone, 'died', info_of(dead))
  end
  if next_expiry <= now then
    again()
  end
end

-- Reads the lock. Returns what the token has in it, and whether it is one of ours, or
-- nothing.
local function read(expected, wanted)
  local f = redis.call('HMGET', KEYS[1], 'kind', 'limit', 'used', 'next', 'fixed', 'fence', token, 'owner', 'holds')
  kind, limit, used, next_expiry, fixed = f[1] or expected, tonumber(f[2] or wanted), tonumber(f[3] or 0), tonumber(f[4] or 9e15), f[5]
  common_fence = f[6] and tonumber(f[6])
  holder = f[8] and string.sub(f[8], 2)
  holds = tonumber(f[9] or 0)
  if limit == 0 then
    limit = wanted
  end
  return f[7], f[1] or redis.call('EXISTS', KEYS[1]) == 0
end

local function of_another_kind()
  error('BADKIND the key holds another kind of lock, or something else', 0)
end

-- Refuses a limit or a weight that does not go with the lock's limit.
local function misfit(why)
  error('BADLIMIT ' .. (kind == 'sem' and 'the semaphore has ' or 'the lock has room for ') .. whole(limit)
    .. (kind == 'sem' and ' permits' or '') .. why, 0)
end

-- The hold, if it is one, and not over. Whoever may publish chooses tokens, such as the name
-- of another field.
local function live(hold)
  local expiry = hold and parse_hold(hold)
  return expiry and expiry > now and hold
end

-- Reads the lock for a script that concerns the token's hold only, and returns that. Holds that
-- are over stay, and are counted.
local function load_own()
  local hold, known = read()
  if not known then
    of_another_kind()
  end
  return live(hold)
end

-- Reads the lock, for a caller that believes it to be of this kind and limit, or knows
-- neither. Returns the hold of the token, if it is there. No hold is over afterwards: where
-- there are more of those than a script may remove, it ends.
local function load(expected, wanted)
  local hold, known = read(expected, wanted)
  if known and now >= next_expiry then
    sweep()
    if used == 0 and not stays() then
      kind, limit = expected or kind, wanted or limit
    end
  end
  if not known or expected and kind ~= expected then
    of_another_kind()
  end
  if wanted and not fixed and limit ~= wanted then
    if kind == 'latch' or kind == 'bar' then
      error('BADPARTIES it has ' .. whole(limit) .. ' parties now, not ' .. whole(wanted), 0)
    end
    misfit(' for those who use it now, not ' .. whole(wanted))
  end
  if kind == 'latch' then
    local count = redis.call('HGET', KEYS[1], 'count')
    if wanted and not count then
      begin_count(wanted)
      count = wanted
    end
    seats = tonumber(count or 0)
  end
  return live(hold)
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

-- Makes the keys last for as long as its holds. The index of a hash that stays need not be as
-- old as that: it can be made anew.
local function outlast(ttl)
  -- mutants: outlast-shares
  if not fixed and redis.call('PTTL', KEYS[1]) < ttl then
    redis.call('PEXPIRE', KEYS[1], ttl)
    redis.call('PEXPIRE', expiries, ttl)
  end
  local kept = math.max(ttl, latch_rest)
  if stays() and redis.call('PTTL', expiries) < kept then
    redis.call('PEXPIRE', expiries, whole(kept))
  end
end

-- The index comes first: a hold that is not in it would not be seen to expire.
local function write_hold(owner, expiry, weight, fence, granted, info)
  next_expiry = math.min(next_expiry, expiry)
  redis.call('ZADD', expiries, whole(expiry), owner)
  redis.call('HSET', KEYS[1], 'kind', kind, 'limit', whole(limit or 0), 'used', whole(used), 'holds', whole(holds), 'next', whole(next_expiry),
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
  holds = holds + 1
  -- mutants: add-weight
  used = used + weight
  write_hold(owner, now + ttl * 1000, weight, fence, string.sub(at, 1, -4), info)
  if kind == 'bar' then
    enter(owner)
  end
  outlast(ttl)
  return fence, n
end

-- Removes a hold. The keys stay until tidy: in a Cluster's slot that is on its way to
-- another node, one that was removed could not be written again, for who comes next.
local function dismiss(owner, hold)
  local _, weight = parse_hold(hold)
  redis.call('HDEL', KEYS[1], owner, '@' .. owner)
  dismissed[#dismissed + 1] = owner
  used, holds = used - weight, holds - 1
  if used == 0 then
    next_expiry, common_fence = 9e15, nil
  end
  redis.call('HSET', KEYS[1], 'used', whole(used), 'holds', whole(holds), 'next', whole(next_expiry))
end

-- Removes a hash without holds, or from the index those that are no more.
local function tidy()
  if used == 0 and not stays() then
    redis.call('DEL', KEYS[1], expiries)
  elseif dismissed[1] then
    redis.call('ZREM', expiries, unpack(dismissed))
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
      notify(member, now)
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
        notify(member, next_expiry)
      end
      return fence, n
    end
    opened = opened or kind == 'own' and used == 0
    redis.call('ZREM', KEYS[2], member)
    moved = true
    if not weight or weight > limit then
      notify(member, now) -- to find out
    elseif member == self then
      fence, n = admit(owner, weight, info, ttl, block, who)
    elseif receivers(channel) > 0 then
      local f = admit(owner, weight, info, tonumber(claim), 1, who)
      local heard = send(channel, 'hf1 ' .. kind .. ' ' .. owner .. ' ' .. whole(now) .. ' ' .. claim .. ' ' .. whole(f) .. ' ' .. KEYS[1])
      if cluster and heard == 0 then
        dismiss(owner, whole(now) .. ':' .. whole(weight) .. ':0:')
      end
    else
      drop_dead(self)
    end
  end
end

-- Of some holder, as a mutex's value is written, with what is left in ms: the latest, or
-- whoever has it for longest.
local function sample()
  local owner = redis.call('HGET', KEYS[1], 'last')
  local hold = owner and redis.call('HGET', KEYS[1], owner)
  if not hold then
    owner = redis.call('ZRANGE', expiries, '-1', '-1')[1]
    hold = owner and redis.call('HGET', KEYS[1], owner)
  end
  if not hold then
    return nil
  end
  local expiry, _, fence = parse_hold(hold)
  local granted, info = string.match(hold, '^%d+:%d+:%d+:(%d+):(.*)$')
  return math.floor((expiry - now) / 1000), 'hf1:' .. owner .. ':' .. whole(fence) .. ':' .. granted .. ':0:' .. info
end
