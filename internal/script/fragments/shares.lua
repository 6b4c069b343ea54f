-- shares.lua: a lock that several may hold at once.
-- KEYS[4], or the second of two KEYS, is the index of its holds: a sorted set of their tokens, scored by their expiries. Of an owned
-- lock, a member 's:TOKEN' says that share_disown.lua has ended that hold. Its score is the negated expiry of the hold, until which it is
-- kept. Of a latch, the index keeps the tokens of parties that latch_reset.lua has ended.
-- Each hold has a weight and its own expiry. The weights of all holds stay within the limit. A writer of a read-write lock weighs the whole
-- limit; a semaphore's limit is the number of its permits; an owned lock may have any number of holds, all of one owner; and a party of a
-- latch or a barrier has a hold, too (parties.lua). The lock is a hash:
--   kind   rw, sem, own, latch or bar
--   limit  of the weights; 0 if the next user sets it
--   used   the sum of the weights; of an owned lock, the number of holds
--   holds  the number of holds
--   next   server time (µs) before which no hold expires. At that time the expired ones are swept out
--   last   the token of a recent hold, to show to people
--   fence  of the latest grant. Readers that hold the lock at the same time share it, and so do the holds of an owner
--   owner  of an owned lock: '=' and the owner's id, so that no id looks like a hold
--   fixed  1 if the limit was set for good (share_resize.lua). Then the hash stays
--   TOKEN  a hold: EXPIRY:WEIGHT:FENCE:GRANTED:INFO, EXPIRY in µs, GRANTED in ms
-- requires prelude, mint, queue, parties, value

local kind, limit, used, holds, next_expiry, fixed, common_fence, lock_owner
local expiries = KEYS[4] or KEYS[2]
local removed = {} -- tokens of holds that this script has removed, but not yet from the index
local seats -- of a latch: how many parties are left
local unlimited = 1000000000 -- the limit of a lock that has none
local head_changed = false -- the queue has another first waiter, which must be told

local function parse_hold(value)
  local expiry, weight, fence, granted, info = string.match(value, '^(%d+):(%d+):(%d+):(%d+):(.*)$')
  return tonumber(expiry), tonumber(weight), tonumber(fence), granted, info
end

-- Lets the script write although the server is out of memory: HDEL works then, and so does everything after a script's first write.
local function insist()
  redis.call('HDEL', KEYS[1], '')
end

-- Reports whether the hash is kept after the last hold.
local function stays()
  return fixed or kind == 'latch'
end

-- Calls a command on a key with some of the arguments at a time: Lua's stack is small.
local function in_parts(command, key, arguments)
  for i = 1, #arguments, 200 do
    redis.call(command, key, unpack(arguments, i, math.min(i + 199, #arguments)))
  end
end

-- Rebuilds the index and the sums from the holds if the index lacks some, because it was evicted. One that has too many does no harm.
local function complete_index()
  if redis.call('ZCOUNT', expiries, '0', '+inf') >= holds then return end
  local cursor, scores, known = '0', {}, {}
  used, holds = 0, 0
  repeat
    local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', '1000')
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local hold_token, expiry, weight = page[2][i], parse_hold(page[2][i + 1])
      if expiry and not known[hold_token] then
        known[hold_token] = true
        used, holds = used + weight, holds + 1
        scores[#scores + 1], scores[#scores + 2] = whole(expiry), hold_token
      end
    end
  until cursor == '0'
  in_parts('ZADD', expiries, scores)
  redis.call('PEXPIRE', expiries, whole(math.max(redis.call('PTTL', KEYS[1]), stays() and latch_ttl or 0)))
end

-- Deletes the lock, which has no hold. The index of an owned lock keeps what it says of holds that were ended.
local function delete_lock()
  redis.call('DEL', KEYS[1])
  if kind == 'own' then
    redis.call('ZREMRANGEBYSCORE', expiries, '(' .. whole(-now), '(0')
    redis.call('ZREMRANGEBYSCORE', expiries, '0', '+inf')
  else
    redis.call('DEL', expiries)
  end
end

-- Makes an index without holds, which may have tokens of parties that a reset has ended, last until their holds would have expired.
local function let_index_end()
  local last = (look_at('ZRANGE', expiries, '-1', '-1', 'WITHSCORES') or {})[2]
  if last then
    redis.call('PEXPIRE', expiries, whole(math.max(math.ceil((last - now) / 1000), 1)))
  end
end

-- Removes expired holds, as many as a script may.
local function sweep()
  insist()
  complete_index()
  local over = redis.call('ZRANGEBYSCORE', expiries, '0', at, 'LIMIT', '0', most_removed)
  local gone, marks, info_of_dead = {}, {}, nil
  for i = 1, #over, 200 do
    local last = math.min(i + 199, #over)
    for j, hold in ipairs(redis.call('HMGET', KEYS[1], unpack(over, i, last))) do
      local expiry, weight, _, _, info = parse_hold(hold or '')
      -- mutants: share-expired
      if expiry and expiry <= now then
        gone[#gone + 1] = over[i + j - 1]
        marks[#marks + 1] = '@' .. over[i + j - 1]
        used, info_of_dead = used - weight, info
      end
    end
  end
  holds = holds - #gone
  if holds == 0 and not stays() then
    delete_lock()
    next_expiry, common_fence = 9e15, nil
    return
  end
  in_parts('HDEL', KEYS[1], gone)
  in_parts('ZREM', expiries, over)
  if holds == 0 then
    let_index_end()
  end
  next_expiry = tonumber(redis.call('ZRANGEBYSCORE', expiries, '0', '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2] or 9e15)
  redis.call('HSET', KEYS[1], 'used', whole(used), 'holds', whole(holds), 'next', whole(next_expiry))
  if info_of_dead then
    if kind == 'bar' then
      in_parts('HDEL', KEYS[1], marks)
    end
    depart(kind, #gone, 'died', info_of_dead)
  end
  if next_expiry <= now then ask_again() end
end

-- Reads the lock. Returns the hold of the caller's token, and whether the lock is of this form or does not exist. expected and wanted are
-- the kind and the limit of a lock that does not exist.
local function read(expected, wanted)
  local f = redis.call('HMGET', KEYS[1], 'kind', 'limit', 'used', 'next', 'fixed', 'fence', token, 'owner', 'holds')
  kind, limit, used, next_expiry, fixed = f[1] or expected, tonumber(f[2] or wanted), tonumber(f[3] or 0), tonumber(f[4] or 9e15), f[5]
  common_fence = f[6] and tonumber(f[6])
  lock_owner = f[8] and string.sub(f[8], 2)
  holds = tonumber(f[9] or 0)
  if limit == 0 then limit = wanted end
  return f[7], f[1] or redis.call('EXISTS', KEYS[1]) == 0
end

local function of_another_kind()
  error('BADKIND the key holds another kind of lock, or something else', 0)
end

-- Refuses a limit or a weight that does not fit the lock's limit.
local function refuse_limit(why)
  error('BADLIMIT ' .. (kind == 'sem' and 'the semaphore has ' or 'the lock has room for ') .. whole(limit)
    .. (kind == 'sem' and ' permits' or '') .. why, 0)
end

-- Returns the hold if it is one and has not expired. A client chooses its token, which may be the name of another field.
local function live(hold)
  local expiry = hold and parse_hold(hold)
  return expiry and expiry > now and hold
end

-- Reads the lock for a script that concerns only the caller's hold, and returns that. Expired holds stay, and are counted.
local function load_own()
  local hold, known = read()
  if not known then of_another_kind() end
  return live(hold)
end

-- Reads the lock, and returns the caller's hold if there is one. expected and wanted are the kind and the limit that the caller believes
-- the lock to have, if it knows. Afterwards no hold is expired; if more are than a script may remove, it ends.
local function load(expected, wanted)
  local hold, known = read(expected, wanted)
  if known and now >= next_expiry then
    sweep()
    if used == 0 and not stays() then
      kind, limit = expected or kind, wanted or limit
    end
  end
  if not known or expected and kind ~= expected then of_another_kind() end
  if wanted and not fixed and limit ~= wanted then
    if kind == 'latch' or kind == 'bar' then
      error('BADPARTIES it has ' .. whole(limit) .. ' parties now, not ' .. whole(wanted), 0)
    end
    refuse_limit(' for those who use it now, not ' .. whole(wanted))
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

-- Reports whether the owner with that id has the lock.
local function owned_by(owner)
  -- mutants: same-owner
  return kind == 'own' and used > 0 and owner == lock_owner
end

-- Reports whether there is room for that weight, of that owner if the lock is owned.
local function room(weight, owner)
  if kind == 'own' then return used == 0 or owned_by(owner) end
  if seats then return used + weight <= seats end
  -- mutants: room
  return used + weight <= limit
end

-- Parses what a waiter asks for. Returns its weight, its info and, for an owned lock, the owner, which follows the weight.
local function parse_request(rest)
  local weight, info = string.match(rest or '', '^(%d+)\n(.*)$')
  local owner
  if weight and kind == 'own' then
    owner, info = string.match(info, '^([^\n]*)\n(.*)$')
  end
  return info and tonumber(weight), info, owner
end

-- Makes the keys last for as long as a hold of ttl ms. The index can be rebuilt, and need not last as long as a hash that stays.
local function extend_keys(ttl)
  -- mutants: outlast-shares
  if not fixed then
    last_for(KEYS[1], ttl)
  end
  -- The index by itself: one that was evicted, and begins again here, has no expiry.
  if holds > 0 then
    last_for(expiries, stays() and math.max(ttl, latch_ttl) or ttl)
  end
end

-- Writes the hold of that token. The index comes first, because nobody would see that a hold outside of it expires.
local function write_hold(hold_token, expiry, weight, fence, granted, info)
  next_expiry = math.min(next_expiry, expiry)
  redis.call('ZADD', expiries, whole(expiry), hold_token)
  redis.call('HSET', KEYS[1], 'kind', kind, 'limit', whole(limit or 0), 'used', whole(used), 'holds', whole(holds), 'next', whole(next_expiry),
    'last', hold_token, 'fence', whole(common_fence or fence), hold_token, whole(expiry) .. ':' .. whole(weight) .. ':' .. whole(fence) .. ':' .. granted .. ':' .. info)
  if kind == 'own' then
    redis.call('HSET', KEYS[1], 'owner', '=' .. (lock_owner or ''))
  end
end

-- Adds a hold, for which there is room. Returns its fence, and how many are reserved.
local function admit(hold_token, weight, info, ttl, block, owner)
  local fence, n
  if (owned_by(owner) or kind == 'rw' and weight < limit) and common_fence then
    -- An owner's holds are one grant. Readers share one fence: if each had its own, a resource that a later reader has used would refuse
    -- the earlier ones. It is above the last writer's, which cannot write any more.
    fence, n = common_fence, 1
  else
    fence, n = mint(block)
  end
  common_fence, lock_owner = fence, owner
  holds = holds + 1
  -- mutants: add-weight
  used = used + weight
  write_hold(hold_token, now + ttl * 1000, weight, fence, string.sub(at, 1, -4), info)
  if kind == 'bar' then
    enter(hold_token)
  end
  extend_keys(ttl)
  return fence, n
end

-- Removes a hold of that weight. The keys stay until tidy: in a Cluster's slot that moves, a deleted key cannot be created again.
local function dismiss(hold_token, weight)
  redis.call('HDEL', KEYS[1], hold_token, '@' .. hold_token)
  removed[#removed + 1] = hold_token
  used, holds = used - weight, holds - 1
  if used == 0 then next_expiry, common_fence = 9e15, nil end
  redis.call('HSET', KEYS[1], 'used', whole(used), 'holds', whole(holds), 'next', whole(next_expiry))
end

-- Deletes the keys if no hold is left; otherwise takes removed holds out of the index.
local function tidy()
  if used == 0 and not stays() then
    delete_lock()
  elseif removed[1] then
    in_parts('ZREM', expiries, removed)
    if holds == 0 then
      let_index_end()
    end
  end
end

-- Makes the caller's hold last for at least ttl ms, and returns how long it lasts.
local function prolong_hold(hold, ttl)
  local expiry, weight, fence, granted, info = parse_hold(hold)
  expiry = math.max(expiry, now + ttl * 1000)
  local pttl = math.floor((expiry - now) / 1000)
  insist()
  write_hold(token, expiry, weight, fence, granted, info)
  extend_keys(pttl)
  return pttl
end

-- Tells the waiters of the lock's new owner to look: it may be theirs, too. Waiters too far back find out by themselves.
local function notify_owned()
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', '100')) do
    local _, _, _, rest = parse_waiter(member)
    local _, _, owner = parse_request(rest)
    if owned_by(owner) then
      notify(member, now)
    end
  end
end

-- Serves the waiters in their order for as long as there is room; readers that stand together are served together. A waiter that is dead is
-- passed, even if there is no room for it, which can last long. Returns fence and block if self, a member of the queue that is answered
-- directly, for ttl ms, was served. As in serve of hand_over.lua, entries are removed before anything else, and nothing is announced before
-- it is true.
local function serve(self, ttl, block)
  local fence, n
  local opened = false -- the lock has a new owner
  while true do
    local member = first_waiter()
    if not member then
      settle()
      return fence, n
    end
    local waiter_token, claim, channel, rest = parse_waiter(member)
    local weight, info, owner = parse_request(rest)
    if weight and weight <= limit and (owned_by(owner) or not room(weight, owner)) and (member == self or receivers(channel) > 0) then
      if opened or owned_by(owner) then
        notify_owned()
      end
      if head_changed and not owned_by(owner) then
        notify(member, next_expiry)
      end
      return fence, n
    end
    opened = opened or kind == 'own' and used == 0
    redis.call('ZREM', KEYS[2], member)
    head_changed = true
    if not weight or weight > limit then
      notify(member, now) -- its client finds out why
    elseif member == self then
      fence, n = admit(waiter_token, weight, info, ttl, block, owner)
    elseif receivers(channel) > 0 then
      local f = admit(waiter_token, weight, info, tonumber(claim), 1, owner)
      local heard = send(channel, 'hf2 ' .. kind .. ' ' .. waiter_token .. ' ' .. at .. ' ' .. claim .. ' ' .. whole(f) .. ' ' .. KEYS[1])
      if cluster and heard == 0 then
        dismiss(waiter_token, weight)
      end
    else
      drop_dead(self)
    end
  end
end

-- Returns 'PTTL WAITERS VALUE' of a recent hold or the one that lasts longest, for people; if there is none, VALUE is 'hf2:-:0:0:0:'.
local function some_hold(waiters)
  local hold_token = redis.call('HGET', KEYS[1], 'last')
  local hold = hold_token and redis.call('HGET', KEYS[1], hold_token)
  if not hold then
    hold_token = redis.call('ZRANGE', expiries, '-1', '-1')[1]
    hold = hold_token and redis.call('HGET', KEYS[1], hold_token)
  end
  if not hold then return '0 ' .. waiters .. ' hf2:-:0:0:0:' end
  local expiry, _, fence, granted, info = parse_hold(hold)
  return math.floor((expiry - now) / 1000) .. ' ' .. waiters .. ' ' .. lock_value('hf2:' .. hold_token .. ':', whole(fence), granted, '0', info)
end

-- Reports whether share_disown.lua or latch_reset.lua has ended the caller's hold. It is only for people, so it raises no error.
local function is_superseded()
  if kind == 'latch' then return tonumber(look_at('ZSCORE', expiries, token) or 0) > now end
  return look_at('ZSCORE', expiries, 's:' .. token)
end

-- Returns the reply that the caller's hold does not exist: 'superseded NOW' if it was ended by one of these scripts, 'absent NOW' if nobody
-- has the lock, and 'gone NOW' if others have it.
local function missing()
  if is_superseded() then return 'superseded ' .. at end
  -- mutants: share-absent
  return (used == 0 and 'absent ' or 'gone ') .. at
end
