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
local ttl, not_after, fence, reserved, info = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local granted_at, age = tonumber(ARGV[8]), tonumber(ARGV[9])
local later = math.min(fence, granted_at, now - age)
local counter_kept = 82800000000
local function another_had_it()
  local counter = redis.call('GET', KEYS[3])
  if counter then
    return (tonumber(counter) or later) >= later
  end
  return cluster and now - granted_at > counter_kept
end
local function renewed(pttl)
  return 'renewed ' .. whole(now) .. ' ' .. pttl .. ' 0 0'
end
local function main()
  if now >= not_after then
    on_master()
    return 'late ' .. whole(now)
  end
  local value = read_lock()
  local granted = mine .. ARGV[5] .. ':'
  if value and string.sub(value, 1, #granted) == granted then
    return renewed(prolong(ttl))
  end
  if value or another_had_it() or redis.call('ZSCORE', KEYS[2], 'x:' .. token) then
    on_master()
    return 'gone ' .. whole(now)
  end
  if reserved >= now then
    store_counter(reserved)
  end
  write_lock(token, owned(token, fence, new_chain(), info, first_waiter()), ttl)
  return renewed(ttl)
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
