local flags = ARGV[1]
local cluster = string.find(flags, 'c', 1, true)
local clock = redis.call('TIME')
local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local now = tonumber(at)
local function whole(n)
  return n == now and at or string.format('%d', n)
end
local function error_text(err)
  if type(err) == 'table' then return err.err end
  return (string.gsub(tostring(err), '^[^ ]*:%d+: ', ''))
end
local function answer(main)
  local ok, reply = pcall(main)
  if ok then return reply end
  reply = error_text(reply)
  if string.sub(reply, 1, 9) == 'READONLY ' then return { err = reply } end
  return 'error ' .. reply
end
local token = ARGV[2]
local mine = 'hf2:' .. token .. ':'
local shared = string.find(flags, 'k', 1, true)
local function is_mine(value)
  return value and string.sub(value, 1, #mine) == mine
end
local function on_master()
  local ok, err = pcall(redis.call, 'PEXPIRE', KEYS[1], -3600000, 'GT')
  if not ok and string.sub(error_text(err), 1, 9) == 'READONLY ' then error(error_text(err), 0) end
end
local function refuse(word, rest)
  on_master()
  return word .. ' ' .. at .. (rest and ' ' .. rest or '')
end
local function last_for(key, ms)
  if redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, whole(ms))
  end
end
local function look_at(...)
  local ok, reply = pcall(redis.call, ...)
  if ok then return reply end
  reply = error_text(reply)
  if not string.find(reply, 'non local key', 1, true) then error(reply, 0) end
  return nil
end
local function waiters(n)
  return look_at('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', n) or {}
end
local function first_waiter()
  return waiters(1)[1]
end
local function parse_waiter(member)
  return string.match(member, '^([^\n]*)\n(%d+)@?%d*\n([^\n]*)\n(.*)$')
end
local function settle()
  local last = (look_at('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES') or {})[2]
  if last and not first_waiter() then
    redis.call('PEXPIRE', KEYS[2], math.max(0, math.ceil((-last - now) / 1000)))
  end
end
local function receivers(...)
  local reply = redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', ...)
  return reply[2], reply[4]
end
local function send(channel, text)
  return redis.call(cluster and 'SPUBLISH' or 'PUBLISH', channel, text)
end
local most_removed = 500
local function ask_again()
  error('AGAIN there is more to clear away first', 0)
end
local function hearers(members)
  local channels, counts = {}, {}
  for i, member in ipairs(members) do
    local _, _, channel = parse_waiter(member)
    channels[i] = channel or ''
  end
  local reply = channels[1] and redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', unpack(channels)) or {}
  for i = 1, #channels do
    counts[i] = reply[2 * i]
  end
  return counts
end
local function dead_ahead(n, self)
  local first = waiters(n)
  for i, count in ipairs(hearers(first)) do
    if count > 0 or first[i] == self then return i - 1, first end
  end
  return #first, first
end
local function notify(member, due)
  local ok, waiter_token, _, channel = pcall(parse_waiter, member)
  if ok and waiter_token then
    pcall(send, channel, 'hf2 standby ' .. waiter_token .. ' ' .. at .. ' ' .. whole(due))
  end
end
local function is_dead(member, count)
  local ok, counts = true, { count }
  if not count then ok, counts = pcall(hearers, { member }) end
  return ok and counts[1] == 0
end
local function leads(member)
  local first = first_waiter()
  if not first or first == member or not is_dead(first) then return first == member end
  local n, ahead = dead_ahead(100, member)
  return ahead[n + 1] == member
end
local function latest_alive()
  local latest = look_at('ZRANGE', KEYS[2], '-100', '-1') or {}
  local counts = hearers(latest)
  for i = #latest, 1, -1 do
    if counts[i] > 0 then return latest[i] end
  end
end
local function first_alive(first, count)
  if not is_dead(first, count) then return first end
  local n, ahead = dead_ahead(100)
  return ahead[n + 1] or latest_alive()
end
local function stand_by(first, due, count)
  local ok, member = pcall(first_alive, first, count)
  notify(ok and member or first, due)
end
local function drop_dead(self)
  for _ = 1, most_removed, 100 do
    local n, first = dead_ahead(100, self)
    if n > 0 then
      redis.call('ZREM', KEYS[2], unpack(first, 1, n))
    end
    if n < 100 then return end
  end
  if dead_ahead(1, self) > 0 then
    local latest = latest_alive()
    if latest then
      notify(latest, now)
    end
    ask_again()
  end
end
local latch_ttl, deleted_latch_ttl = 86400000, 60000
local function keep_latch()
  local least = redis.call('HGET', KEYS[1], 'count') and latch_ttl or deleted_latch_ttl
  redis.call('PEXPIRE', KEYS[1], whole(math.max(least, redis.call('PTTL', KEYS[1]))))
end
local function tell(kind)
  local channel = string.match(KEYS[1], '^[^{]*') .. 'c:w:' .. KEYS[1]
  if cluster then channel = KEYS[1] .. ':' .. kind .. ':w' end
  pcall(send, channel, 'hf2 changed ' .. at)
end
local function touch_latch()
  on_master()
  pcall(keep_latch)
end
local function begin_count(n)
  local f = redis.call('HMGET', KEYS[1], 'since', 'count', 'missing')
  local since = math.max(now, tonumber(f[1] or 0) + 1)
  if f[2] == '0' then
    redis.call('HSET', KEYS[1], 'opened', f[1], 'opened_missing', f[3])
  end
  redis.call('HSET', KEYS[1], 'kind', 'latch', 'limit', whole(n), 'used', '0', 'holds', '0', 'next', '9000000000000000',
    'count', whole(n), 'missing', '0', 'since', whole(since))
  redis.call('PEXPIRE', KEYS[1], latch_ttl)
  return since
end
local function delete_count()
  begin_count(0)
  redis.call('HDEL', KEYS[1], 'limit', 'count', 'missing')
  redis.call('PEXPIRE', KEYS[1], deleted_latch_ttl)
end
local function enter(party)
  redis.call('HSET', KEYS[1], '@' .. party, '0 ' .. (redis.call('HGET', KEYS[1], 'phase') or '1') .. ' out')
end
local function depart(kind, n, how, info)
  if kind == 'latch' then
    local f = redis.call('HMGET', KEYS[1], 'count', 'missing')
    local count, missing = math.max(tonumber(f[1] or 0) - n, 0), tonumber(f[2] or 0)
    if how ~= 'done' then
      missing = missing + n
    end
    redis.call('HSET', KEYS[1], 'count', whole(count), 'missing', whole(missing))
    keep_latch()
    if count == 0 then
      tell(kind)
    end
  elseif kind == 'bar' then
    local phase = tonumber(redis.call('HGET', KEYS[1], 'phase') or 1)
    redis.call('HSET', KEYS[1], 'phase', whole(phase + 1), 'arrived', '0', 'broken', how .. ' ' .. info)
    tell(kind)
  end
end
local counter = KEYS[3]
local longest_lead = 86400000000
local kept = cluster and '0' or '1'
local function checked(reply)
  if reply.err then
    error(string.find(reply.err, 'WRONGTYPE', 1, true) and 'BADFENCE the fence counter ' .. counter .. ' is not a stream' or reply.err, 0)
  end
  return reply
end
local function believed(fence)
  if fence - now >= longest_lead then
    error('BADFENCE the fence counter ' .. counter .. " leads the server's clock by more than a day: set that clock right if it is behind; if the counter was set by somebody, delete it, and fences follow the clock again", 0)
  end
  return fence
end
local function raise_to(fence)
  checked(redis.pcall('XADD', counter, 'MAXLEN', '~', kept, string.format('%d-%d', math.floor(fence / 1000), fence % 1000), 'g', ''))
end
local function fence_of(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return ms * 1000 + seq, seq
end
local function mint(n)
  local id = checked(redis.pcall('XADD', counter, 'MAXLEN', '~', kept, '*', 'g', ''))
  local fence, seq = fence_of(id)
  believed(fence)
  if #seq > 3 then
    raise_to(fence)
  end
  if fence - now > 1000000 then
    n = 1
  end
  if n > 1 then
    raise_to(fence + n - 1)
  end
  return fence, n
end
local function renewed(pttl, n, issue)
  local ok, fence, issued = false, 0, 0
  if n > 0 then ok, fence, issued = pcall(issue, n) end
  return 'renewed ' .. at .. ' ' .. pttl .. ' ' .. whole(ok and fence or 0) .. ' ' .. (ok and issued or 0)
end
local function lock_value(head, fence, granted, chain, info)
  return head .. fence .. ':' .. granted .. ':' .. chain .. ':' .. info
end
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
local function insist()
  redis.call('HDEL', KEYS[1], '')
end
local function stays()
  return fixed or kind == 'latch'
end
local function in_parts(command, key, arguments)
  for i = 1, #arguments, 200 do
    redis.call(command, key, unpack(arguments, i, math.min(i + 199, #arguments)))
  end
end
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
local function delete_lock()
  redis.call('DEL', KEYS[1])
  if kind == 'own' then
    redis.call('ZREMRANGEBYSCORE', expiries, '(' .. whole(-now), '(0')
    redis.call('ZREMRANGEBYSCORE', expiries, '0', '+inf')
  else
    redis.call('DEL', expiries)
  end
end
local function let_index_end()
  local last = (look_at('ZRANGE', expiries, '-1', '-1', 'WITHSCORES') or {})[2]
  if last then
    redis.call('PEXPIRE', expiries, whole(math.max(math.ceil((last - now) / 1000), 1)))
  end
end
local function sweep()
  insist()
  complete_index()
  local over = redis.call('ZRANGEBYSCORE', expiries, '0', at, 'LIMIT', '0', most_removed)
  local gone, marks, info_of_dead = {}, {}, nil
  for i = 1, #over, 200 do
    local last = math.min(i + 199, #over)
    for j, hold in ipairs(redis.call('HMGET', KEYS[1], unpack(over, i, last))) do
      local expiry, weight, _, _, info = parse_hold(hold or '')
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
local function refuse_limit(why)
  error('BADLIMIT ' .. (kind == 'sem' and 'the semaphore has ' or 'the lock has room for ') .. whole(limit)
    .. (kind == 'sem' and ' permits' or '') .. why, 0)
end
local function live(hold)
  local expiry = hold and parse_hold(hold)
  return expiry and expiry > now and hold
end
local function load_own()
  local hold, known = read()
  if not known then of_another_kind() end
  return live(hold)
end
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
local function owned_by(owner)
  return kind == 'own' and used > 0 and owner == lock_owner
end
local function room(weight, owner)
  if kind == 'own' then return used == 0 or owned_by(owner) end
  if seats then return used + weight <= seats end
  return used + weight <= limit
end
local function parse_request(rest)
  local weight, info = string.match(rest or '', '^(%d+)\n(.*)$')
  local owner
  if weight and kind == 'own' then
    owner, info = string.match(info, '^([^\n]*)\n(.*)$')
  end
  return info and tonumber(weight), info, owner
end
local function extend_keys(ttl)
  if not fixed then
    last_for(KEYS[1], ttl)
  end
  if holds > 0 then
    last_for(expiries, stays() and math.max(ttl, latch_ttl) or ttl)
  end
end
local function write_hold(hold_token, expiry, weight, fence, granted, info)
  next_expiry = math.min(next_expiry, expiry)
  redis.call('ZADD', expiries, whole(expiry), hold_token)
  redis.call('HSET', KEYS[1], 'kind', kind, 'limit', whole(limit or 0), 'used', whole(used), 'holds', whole(holds), 'next', whole(next_expiry),
    'last', hold_token, 'fence', whole(common_fence or fence), hold_token, whole(expiry) .. ':' .. whole(weight) .. ':' .. whole(fence) .. ':' .. granted .. ':' .. info)
  if kind == 'own' then
    redis.call('HSET', KEYS[1], 'owner', '=' .. (lock_owner or ''))
  end
end
local function admit(hold_token, weight, info, ttl, block, owner)
  local fence, n
  if (owned_by(owner) or kind == 'rw' and weight < limit) and common_fence then
    fence, n = common_fence, 1
  else
    fence, n = mint(block)
  end
  common_fence, lock_owner = fence, owner
  holds = holds + 1
  used = used + weight
  write_hold(hold_token, now + ttl * 1000, weight, fence, string.sub(at, 1, -4), info)
  if kind == 'bar' then
    enter(hold_token)
  end
  extend_keys(ttl)
  return fence, n
end
local function dismiss(hold_token, weight)
  redis.call('HDEL', KEYS[1], hold_token, '@' .. hold_token)
  removed[#removed + 1] = hold_token
  used, holds = used - weight, holds - 1
  if used == 0 then next_expiry, common_fence = 9e15, nil end
  redis.call('HSET', KEYS[1], 'used', whole(used), 'holds', whole(holds), 'next', whole(next_expiry))
end
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
local function prolong_hold(hold, ttl)
  local expiry, weight, fence, granted, info = parse_hold(hold)
  expiry = math.max(expiry, now + ttl * 1000)
  local pttl = math.floor((expiry - now) / 1000)
  insist()
  write_hold(token, expiry, weight, fence, granted, info)
  extend_keys(pttl)
  return pttl
end
local function notify_owned()
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', '100')) do
    local _, _, _, rest = parse_waiter(member)
    local _, _, owner = parse_request(rest)
    if owned_by(owner) then
      notify(member, now)
    end
  end
end
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
local function is_superseded()
  if kind == 'latch' then return tonumber(look_at('ZSCORE', expiries, token) or 0) > now end
  return look_at('ZSCORE', expiries, 's:' .. token)
end
local function missing()
  if is_superseded() then return 'superseded ' .. at end
  return (used == 0 and 'absent ' or 'gone ') .. at
end
local function remember(what, until_time)
  if until_time <= now then return end
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. whole(-now), '(0')
  redis.call('ZADD', KEYS[2], whole(-until_time), what)
  last_for(KEYS[2], math.ceil((until_time - now) / 1000))
  settle()
end
local function leave_tombstone(until_time)
  remember('x:' .. token, until_time)
end
local quarantine_time, replica_lag = string.match(flags, 's(%d+)%+(%d+)')
local function told(info, name, pattern)
  local _, last = string.find(info, name, 1, true)
  return last and string.match(info, pattern, last + 1)
end
local function replicated(info)
  local replicas = tonumber(told(info, 'connected_slaves:', '^%d+') or 0)
  if replicas > 0 and not string.find(info, 'min_slaves_good_slaves:', 1, true) then
    error('NOSTRICT this server has replicas, but min-replicas-to-write and min-replicas-max-lag are not both set: when one of them is promoted, this server could go on granting locks', 0)
  end
  return replicas > 0 or not told(info, 'master_replid2:', '^0+%s')
end
local function incarnation(info)
  if string.find(info, 'role:slave', 1, true) then error('READONLY this server is a replica', 0) end
  local run, repl = told(info, 'run_id:', '^%w+'), told(info, 'master_replid:', '^%w+')
  if not run or not repl then
    error('NOSTRICT this server does not tell its run_id and replication id, so that a loss of data could not be noticed', 0)
  end
  return run .. '/' .. repl
end
local function write_mark(id, ready, longest)
  redis.call('SET', KEYS[#KEYS], 'hf2:' .. id .. ':' .. whole(ready) .. ':' .. whole(longest))
end
local function read_mark()
  local id, ready, longest = string.match(redis.call('GET', KEYS[#KEYS]) or '', '^hf2:([^:]*):(%d+):(%d+)$')
  return id, tonumber(ready or 0), tonumber(longest or 0)
end
local function quarantine()
  if not quarantine_time then return 0 end
  local known, info = pcall(redis.call, 'INFO', 'server', 'replication')
  if not known then
    error('NOSTRICT INFO, by which a loss of data is noticed, is not to be had: ' .. error_text(info), 0)
  end
  local self, others = incarnation(info), replicated(info)
  local wanted = quarantine_time + (others and replica_lag or 0)
  local id, ready, longest = read_mark()
  if id ~= self then
    longest = math.max(wanted, longest)
    ready = now + longest * 1000
    write_mark(self, ready, longest)
  elseif wanted > longest then
    ready = ready > now and ready + (wanted - longest) * 1000 or ready
    write_mark(self, ready, wanted)
  elseif ready > now + longest * 1000 then
    ready = now + longest * 1000
    write_mark(self, ready, longest)
  end
  return math.max(0, math.ceil((ready - now) / 1000)), others, self
end
local function quarantined(rest)
  return 'quarantined ' .. at .. ' ' .. rest
end
local function serve_or_notify()
  local known, rest = pcall(quarantine)
  local first = first_waiter()
  if not first then
    settle()
  elseif known and limit and rest == 0 then
    serve()
  else
    stand_by(first, now + (known and limit and rest or 0) * 1000)
  end
end
local member, until_time, ending = ARGV[3], tonumber(ARGV[4]), ARGV[5] or ''
local function main()
  local hold = load()
  if hold then
    local _, weight, _, _, info = parse_hold(hold)
    if ending == 'done' then
      remember('d:' .. token, until_time)
    end
    dismiss(token, weight)
    if ending ~= '' then
      depart(kind, 1, ending, info)
    end
    pcall(serve_or_notify)
    tidy()
    pcall(leave_tombstone, until_time)
    return 'released ' .. at
  elseif ending == 'done' and redis.call('ZSCORE', KEYS[2], 'd:' .. token) then
    touch_latch()
    return 'released ' .. at
  end
  local left = false
  if member ~= '' then
    local led = leads(member)
    left = redis.call('ZREM', KEYS[2], member) == 1
    if left and led then
      head_changed = true
      pcall(serve_or_notify)
    end
  end
  if not left then
    on_master()
  end
  leave_tombstone(until_time)
  if left then return 'left ' .. at end
  local reply = missing()
  if kind ~= 'latch' and is_superseded() then
    redis.call('ZREM', expiries, 's:' .. token) -- the holder knows now
  end
  return reply
end
return answer(main)
