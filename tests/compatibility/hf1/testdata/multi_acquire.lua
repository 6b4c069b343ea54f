local flags = ARGV[1]
local clock = redis.call('TIME')
local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local now = tonumber(at)
local cluster = string.find(flags, 'c', 1, true)
local function whole(n)
  return n == now and at or string.format('%d', n)
end
local function message(err)
  if type(err) == 'table' then
    return err.err
  end
  return (string.gsub(tostring(err), '^[^ ]*:%d+: ', ''))
end
local token = ARGV[2]
local mine = 'hf1:' .. token .. ':'
local shared = string.find(flags, 'k', 1, true)
local function prolong(ttl)
  local pttl = math.max(redis.call('PTTL', KEYS[1]), ttl)
  redis.call('PEXPIRE', KEYS[1], pttl)
  return pttl
end
local function on_master()
  local ok, err = pcall(redis.call, 'PEXPIRE', KEYS[1], -3600000, 'GT')
  if not ok and string.sub(message(err), 1, 9) == 'READONLY ' then
    error(message(err), 0)
  end
end
local function look_at(...)
  local ok, reply = pcall(redis.call, ...)
  if ok then
    return reply
  end
  reply = message(reply)
  if not string.find(reply, 'non local key', 1, true) then
    error(reply, 0)
  end
  return nil
end
local redisson = string.find(flags, 'r', 1, true)
local function field(owner)
  return owner .. ':1'
end
local function read_lock(command)
  command = command or redis.call
  if not redisson then
    return command('GET', KEYS[1])
  end
  return command('HGET', KEYS[1], 'holdfast') or command('EXISTS', KEYS[1]) == 1 and ''
end
local function write_lock(owner, value, ttl)
  if not redisson then
    redis.call('SET', KEYS[1], value, 'PX', ttl)
    return
  end
  local old = string.match(redis.call('HGET', KEYS[1], 'holdfast') or '', '^hf1:([^:]*):')
  redis.call('HSET', KEYS[1], field(owner), 1, 'holdfast', value)
  local ok, err = pcall(function()
    if old and old ~= owner then
      redis.call('HDEL', KEYS[1], field(old))
    end
    redis.call('PEXPIRE', KEYS[1], ttl)
  end)
  if not ok then
    redis.call('DEL', KEYS[1])
    error(message(err), 0)
  end
end
local function mark_lock(value)
  if redisson then
    redis.call('HSET', KEYS[1], 'holdfast', value .. '+')
  else
    redis.call('APPEND', KEYS[1], '+')
  end
end
local function free_lock()
  if redis.call('DEL', KEYS[1]) == 0 or not redisson then
    return
  end
  local tagged = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
  local channel = 'redisson_lock__channel:' .. tagged
  if cluster then
    pcall(redis.call, 'SPUBLISH', channel, '0')
  end
  pcall(redis.call, 'PUBLISH', channel, '0')
end
local longest_lead = 86400000000
local function believed(key, last)
  if not string.match(last, '^%d+$') or #last > 16 or tonumber(last) > 9e15 then
    error('BADFENCE the fence counter is not a number that fences can follow', 0)
  end
  if tonumber(last) - now >= longest_lead then
    error('BADFENCE the fence counter ' .. key .. " leads the server's clock by more than a day: set that clock right if it is behind; if the counter was set by somebody, delete it, and fences follow the clock again", 0)
  end
  return tonumber(last)
end
local counter = KEYS[3]
local function store_counter(fence)
  if cluster then
    redis.call('SET', counter, whole(fence), 'EX', 86400)
  else
    redis.call('SET', counter, whole(fence))
  end
end
local function mint(n)
  local fence = 0
  local last = redis.call('GET', counter)
  if last then
    fence = believed(counter, last)
  end
  fence = math.max(fence + 1, now)
  if fence - now > 1000000 then
    n = 1
  end
  store_counter(fence + n - 1)
  return fence, n
end
local function waiters(n)
  return look_at('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', n) or {}
end
local function first_waiter()
  return waiters(1)[1]
end
local function waiter(member)
  return string.match(member, '^([^\n]*)\n(%d+)\n([^\n]*)\n(.*)$')
end
local function settle()
  local last = (look_at('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES') or {})[2]
  if last and not first_waiter() then
    redis.call('PEXPIRE', KEYS[2], math.max(0, math.ceil((-last - now) / 1000)))
  end
end
local function receivers(channel)
  return redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
end
local function send(channel, text)
  return redis.call(cluster and 'SPUBLISH' or 'PUBLISH', channel, text)
end
local most = 500
local function again()
  error('AGAIN there is more to clear away first', 0)
end
local function hearers(members)
  local channels, counts = {}, {}
  for i, member in ipairs(members) do
    local _, _, channel = waiter(member)
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
    if count > 0 or first[i] == self then
      return i - 1, first
    end
  end
  return #first, first
end
local function notify(member, due)
  local ok, owner, _, channel = pcall(waiter, member)
  if ok and owner then
    pcall(send, channel, 'hf1 standby ' .. owner .. ' ' .. whole(now) .. ' ' .. whole(due))
  end
end
local function is_dead(member)
  local ok, counts = pcall(hearers, { member })
  return ok and counts[1] == 0
end
local function leads(member)
  local first = first_waiter()
  if not first or first == member or not is_dead(first) then
    return first == member
  end
  local n, ahead = dead_ahead(100, member)
  return ahead[n + 1] == member
end
local function latest_alive()
  local latest = look_at('ZRANGE', KEYS[2], '-100', '-1') or {}
  local counts = hearers(latest)
  for i = #latest, 1, -1 do
    if counts[i] > 0 then
      return latest[i]
    end
  end
end
local function first_alive(first)
  if not is_dead(first) then
    return first
  end
  local n, ahead = dead_ahead(100)
  return ahead[n + 1] or latest_alive()
end
local function stand_by(first, due)
  local ok, member = pcall(first_alive, first)
  notify(ok and member or first, due)
end
local function drop_dead(self)
  for _ = 1, most, 100 do
    local n, first = dead_ahead(100, self)
    if n > 0 then
      redis.call('ZREM', KEYS[2], unpack(first, 1, n))
    end
    if n < 100 then
      return
    end
  end
  if dead_ahead(1, self) > 0 then
    local latest = latest_alive()
    if latest then
      notify(latest, now)
    end
    again()
  end
end
local function owned(owner, fence, chain, info, marked)
  return 'hf1:' .. owner .. ':' .. whole(fence) .. ':' .. string.sub(at, 1, -4) .. ':' .. chain .. ':' .. info .. (marked and '+' or '')
end
local function queue_name()
  if string.match(KEYS[2], '^(.*):') == KEYS[1] then
    return ''
  end
  return '@' .. string.sub(redis.sha1hex(KEYS[2]), 1, 8)
end
local function serves_others(value)
  return (string.match(value, '^hf1:[^:]*:%d+:%d+:%d+@%d+(@%x+):') or '') ~= queue_name()
end
local function new_chain()
  return shared and '0@' .. string.sub(at, 1, -4) .. queue_name() or '0'
end
local function next_chain(value)
  if not shared then
    return '0'
  end
  local n, since = string.match(value or '', '^hf1:[^:]*:%d+:%d+:(%d+)@(%d+)[@:]')
  if not n then
    return new_chain()
  end
  if n + 1 > 8 or now / 1000 - since > 50 then
    return nil
  end
  return whole(n + 1) .. '@' .. since .. queue_name()
end
local gap_length = 10
local function open_gap()
  pcall(function()
    redis.call('ZADD', KEYS[2], whole(-now - gap_length * 1000), 'gap')
    if redis.call('PTTL', KEYS[2]) < gap_length then
      redis.call('PEXPIRE', KEYS[2], gap_length)
    end
  end)
end
local function gap()
  local due = shared and look_at('ZSCORE', KEYS[2], 'gap')
  local left = due and math.ceil((-due - now) / 1000) or 0
  return left > 0 and left <= gap_length and left or 0
end
local function serve(chain, self, ttl, block)
  while true do
    local first = waiters(2)
    local member, follower = first[1], first[2]
    if not member then
      free_lock()
      settle()
      return nil
    end
    redis.call('ZREM', KEYS[2], member)
    local owner, claim, channel, info = waiter(member)
    if owner and member == self then
      local fence, n = mint(block)
      write_lock(owner, owned(owner, fence, chain, info, follower), ttl)
      if follower then
        stand_by(follower, now + ttl * 1000)
      else
        settle()
      end
      return fence, n
    elseif owner and receivers(channel) > 0 then
      local fence = mint(1)
      write_lock(owner, owned(owner, fence, chain, info, follower), claim)
      local heard = send(channel, 'hf1 ' .. (redisson and 'redisson ' or 'grant ') .. owner .. ' ' .. whole(now) .. ' ' .. claim .. ' ' .. whole(fence) .. ' ' .. KEYS[1])
      if not cluster or heard > 0 then
        if follower then
          stand_by(follower, now + claim * 1000)
        else
          pcall(settle)
        end
        return nil
      end
    else
      drop_dead(self)
    end
  end
end
local function hand_over(chain, self, ttl, block)
  local ok, fence, n = pcall(serve, chain, self, ttl, block)
  if not ok then
    free_lock()
    error(message(fence), 0)
  end
  return fence, n
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
  if string.find(info, 'role:slave', 1, true) then
    error('READONLY this server is a replica', 0)
  end
  local run, repl = told(info, 'run_id:', '^%w+'), told(info, 'master_replid:', '^%w+')
  if not run or not repl then
    error('NOSTRICT this server does not tell its run_id and replication id, so that a loss of data could not be noticed', 0)
  end
  return run .. '/' .. repl
end
local function write_mark(id, ready, longest)
  redis.call('SET', KEYS[#KEYS], 'hf1:' .. id .. ':' .. whole(ready) .. ':' .. whole(longest))
end
local function read_mark(text)
  local id, ready, longest = string.match(text or redis.call('GET', KEYS[#KEYS]) or '', '^hf1:([^:]*):(%d+):(%d+)$')
  return id, tonumber(ready or 0), tonumber(longest or 0)
end
local function quarantine(text)
  if not quarantine_time then
    return 0
  end
  local known, info = pcall(redis.call, 'INFO', 'server', 'replication')
  if not known then
    error('NOSTRICT INFO, by which a loss of data is noticed, is not to be had: ' .. message(info), 0)
  end
  local self, others = incarnation(info), replicated(info)
  local wanted = quarantine_time + (others and replica_lag or 0)
  local id, ready, longest = read_mark(text)
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
local ttl, not_after, info = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local tokens = { token, unpack(ARGV, 6) }
local function survey()
  local fences, free = {}, 0
  for i, owner in ipairs(tokens) do
    local lock, queue = KEYS[3 * i - 2], KEYS[3 * i - 1]
    local value = redis.call('GET', lock)
    local own = 'hf1:' .. owner .. ':'
    if value and string.sub(value, 1, #own) == own then
      fences[#fences + 1] = string.match(value, '^%d+', #own + 1)
    elseif value then
      return nil, nil, 'held ' .. whole(now) .. ' ' .. i .. ' ' .. redis.call('PTTL', lock) .. ' '
        .. redis.call('ZCOUNT', queue, 0, '+inf') .. ' ' .. value
    elseif redis.call('ZCOUNT', queue, 0, '+inf') > 0 or redis.call('ZSCORE', queue, 'x:' .. owner) then
      return nil, nil, 'queued ' .. whole(now)
    else
      free = free + 1
    end
  end
  return fences, free
end
local function granted(pttl, fences)
  return 'granted ' .. whole(now) .. ' ' .. whole(pttl) .. ' ' .. table.concat(fences, ' ')
end
local function again(fences)
  local least = 9e15
  for i in ipairs(tokens) do
    local pttl = math.max(redis.call('PTTL', KEYS[3 * i - 2]), ttl)
    redis.call('PEXPIRE', KEYS[3 * i - 2], pttl)
    least = math.min(least, pttl)
  end
  return granted(least, fences)
end
local function take()
  local fences = {}
  for i, owner in ipairs(tokens) do
    counter = KEYS[3 * i]
    local fence = mint(1)
    fences[i] = whole(fence)
    redis.call('SET', KEYS[3 * i - 2], owned(owner, fence, new_chain(), info, false), 'PX', ttl)
  end
  return granted(ttl, fences)
end
local function main()
  local rest = quarantine()
  local fences, free, answer = survey()
  if rest > 0 then
    return 'quarantined ' .. whole(now) .. ' ' .. rest
  elseif answer then
    on_master()
    return answer
  elseif free == 0 then
    return again(fences)
  elseif #fences > 0 then
    on_master()
    return 'queued ' .. whole(now)
  elseif now >= not_after then
    on_master()
    return 'late ' .. whole(now)
  end
  local ok, reply = pcall(take)
  if not ok then
    for i in ipairs(tokens) do
      redis.call('DEL', KEYS[3 * i - 2])
    end
    error(message(reply), 0)
  end
  return reply
end
local ok, reply = pcall(main)
if ok then
  return reply
end
reply = message(reply)
if string.sub(reply, 1, 9) == 'READONLY ' then
  return { err = reply }
end
return 'error ' .. reply
