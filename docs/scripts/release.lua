local flags = ARGV[1]
local cluster = string.find(flags, 'c', 1, true)
local clock = redis.call('TIME')
local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local now = tonumber(at)
local function whole(n)
  return n == now and at or string.format('%d', n)
end
local function lock_value(head, fence, granted, chain, info)
  return head .. fence .. ':' .. granted .. ':' .. chain .. ':' .. info
end
local unheard
local function pass_to(member, waiter, claim, channel, info, follower, by, behind, joins, fence)
  local publish = cluster and 'SPUBLISH' or 'PUBLISH'
  redis.call('ZREM', KEYS[2], member)
  local mark = (follower or joins) and '+' or ''
  redis.call('SET', KEYS[1], lock_value('hf2:' .. waiter .. ':', fence, string.sub(at, 1, -4), '0', info) .. mark, 'PX', claim)
  if follower then
    local due, promised = now + claim * 1000, tonumber(by) or 0
    if promised * 1000 <= now or promised * 1000 > due then
      pcall(redis.call, publish, behind, 'hf2 standby ' .. follower .. ' ' .. at .. ' ' .. whole(due))
    end
  end
  return redis.call(publish, channel, 'hf2 grant ' .. waiter .. ' ' .. at .. ' ' .. claim .. ' ' .. fence .. ' ' .. KEYS[1])
end
local function expire_queue()
  local last = redis.call('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES')[2]
  if last then
    redis.call('PEXPIRE', KEYS[2], math.max(0, math.ceil((-last - now) / 1000)))
  end
end
local function joining()
  if not ARGV[6] or now >= tonumber(ARGV[5]) then return nil end
  local two = redis.call('ZRANGE', KEYS[2], '0', '1', 'WITHSCORES')
  if not two[1] or tonumber(two[2]) <= now - 60000000 then return nil end
  local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
  return tonumber(last[2]) < now and {two[1], two[3]} or nil
end
local function join()
  redis.call('ZADD', KEYS[2], 'NX', at, ARGV[6])
  if redis.call('PTTL', KEYS[2]) < 60000 then
    redis.call('PEXPIRE', KEYS[2], 70000)
  end
end
local function short_fence()
  local id = redis.pcall('XADD', KEYS[3], 'MAXLEN', '~', cluster and '0' or '1', '*', 'g', '')
  local ms, seq = string.match(id.err and '' or id, '^(%d+)-(%d?%d?%d)$')
  return ms and ms * 1000 - now < 86400000000 and ms .. string.sub('00' .. seq, -3)
end
local function pass_on()
  local value, mine = redis.call('GET', KEYS[1]), 'hf2:' .. ARGV[2] .. ':'
  if not value or string.sub(value, 1, #mine) ~= mine or string.sub(value, -1) ~= '+' then return nil end
  local first = joining()
  local joins = first and first[1] ~= ARGV[6] and first
  first = first or redis.call('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', '2')
  local waiter, claim, channel, info = string.match(first[1] or '', '^([^\n]*)\n(%d+)@?%d*\n([^\n]*)\n(.*)$')
  local follower, by, behind = string.match(first[2] or '', '^([^\n]*)\n%d+@?(%d*)\n([^\n]*)\n')
  if not waiter or first[2] and not follower then return nil end
  local heard = redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', channel, behind or channel, joins and ARGV[7] or channel)
  if heard[2] == 0 or heard[4] == 0 then return nil end
  local fence = short_fence()
  if not fence then return nil end
  local ok, told = pcall(pass_to, first[1], waiter, claim, channel, info, follower, by, behind, joins, fence)
  if not ok then
    redis.call('DEL', KEYS[1])
  elseif cluster and told == 0 then
    unheard = value
    return nil
  elseif joins and pcall(join) then
    return 'released ' .. at .. ' ' .. claim .. ' ' .. at .. ' ' .. redis.call('ZCOUNT', KEYS[2], '0', '+inf') .. ' ' .. heard[6]
  elseif not follower then
    pcall(expire_queue)
  end
  return 'released ' .. at
end
if (flags == '' or flags == 'c') and ARGV[4] == '0' then
  local ok, reply = pcall(pass_on)
  if ok and reply then return reply end
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
local redisson = string.find(flags, 'r', 1, true)
local function read_lock(command)
  command = command or redis.call
  if not redisson then return command('GET', KEYS[1]) end
  return command('HGET', KEYS[1], 'holdfast') or command('EXISTS', KEYS[1]) == 1 and ''
end
local function write_lock(holder, value, ttl)
  if not redisson then
    redis.call('SET', KEYS[1], value, 'PX', ttl)
    return
  end
  local old = string.match(redis.call('HGET', KEYS[1], 'holdfast') or '', '^hf2:([^:]*):')
  redis.call('HSET', KEYS[1], holder .. ':1', 1, 'holdfast', value)
  local ok, err = pcall(function()
    if old and old ~= holder then
      redis.call('HDEL', KEYS[1], old .. ':1')
    end
    redis.call('PEXPIRE', KEYS[1], ttl)
  end)
  if not ok then
    redis.call('DEL', KEYS[1])
    error(error_text(err), 0)
  end
end
local function free_lock()
  if redis.call('DEL', KEYS[1]) == 0 or not redisson then return end
  local tagged = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
  local channel = 'redisson_lock__channel:' .. tagged
  if cluster then
    pcall(redis.call, 'SPUBLISH', channel, '0')
  end
  pcall(redis.call, 'PUBLISH', channel, '0')
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
local function queue_name()
  if string.match(KEYS[2], '^(.*):') == KEYS[1] then return '' end
  return '@' .. string.sub(redis.sha1hex(KEYS[2]), 1, 8)
end
local function serves_others(value)
  return (string.match(value, '^hf2:[^:]*:%d+:%d+:%d+@%d+(@%x+):') or '') ~= queue_name()
end
local function new_chain()
  return shared and '0@' .. string.sub(at, 1, -4) .. queue_name() or '0'
end
local gap_length = 10
local function gap()
  local due = shared and look_at('ZSCORE', KEYS[2], 'gap')
  local left = due and math.ceil((-due - now) / 1000) or 0
  return left > 0 and left <= gap_length and left or 0
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
local function new_value(holder, fence, chain, info, marked)
  local value = lock_value('hf2:' .. holder .. ':', whole(fence), string.sub(at, 1, -4), chain, info)
  return marked and value .. '+' or value
end
local function prolong(ttl)
  local pttl = math.max(redis.call('PTTL', KEYS[1]), ttl)
  redis.call('PEXPIRE', KEYS[1], pttl)
  return pttl
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
    local waiter_token, claim, channel, info = parse_waiter(member)
    local counts = member == self and {} or hearers(first)
    if waiter_token and member == self then
      local fence, n = mint(block)
      write_lock(waiter_token, new_value(waiter_token, fence, chain, info, follower), ttl)
      if follower then
        stand_by(follower, now + ttl * 1000)
      else
        settle()
      end
      return fence, n
    elseif waiter_token and counts[1] > 0 then
      local fence = mint(1)
      write_lock(waiter_token, new_value(waiter_token, fence, chain, info, follower), claim)
      local heard = send(channel, 'hf2 ' .. (redisson and 'redisson ' or 'grant ') .. waiter_token .. ' ' .. at .. ' ' .. claim .. ' ' .. whole(fence) .. ' ' .. KEYS[1])
      if not cluster or heard > 0 then
        if follower then
          stand_by(follower, now + claim * 1000, counts[2])
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
    error(error_text(fence), 0)
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
local function next_chain(value)
  if not shared then return '0' end
  local n, since = string.match(value or '', '^hf2:[^:]*:%d+:%d+:(%d+)@(%d+)[@:]')
  if not n then return new_chain() end
  if n + 1 > 8 or now / 1000 - since > 50 then return nil end
  return whole(n + 1) .. '@' .. since .. queue_name()
end
local function free_and_notify(ms)
  free_lock()
  local first = first_waiter()
  if first then
    stand_by(first, now + ms * 1000)
  end
  return first
end
local function give(value)
  local chain, rest = next_chain(value), quarantine()
  if rest > 0 then
    free_and_notify(rest)
  elseif chain then
    hand_over(chain)
  elseif free_and_notify(gap_length) then
    pcall(redis.call, 'ZADD', KEYS[2], whole(-now - gap_length * 1000), 'gap')
  end
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
local member, until_time = ARGV[3], tonumber(ARGV[4])
local function leave()
  local led = leads(member)
  if redis.call('ZREM', KEYS[2], member) == 0 then return false end
  local first = led and first_waiter()
  if not first then
    settle()
  else
    local value = read_lock()
    local known, rest = pcall(quarantine)
    if not known then
      stand_by(first, now)
    elseif rest > 0 then
      stand_by(first, now + rest * 1000)
    elseif not value and gap() > 0 then
      stand_by(first, now + gap() * 1000)
    elseif not value then
      pcall(hand_over, new_chain())
    elseif string.sub(value, 1, 4) == 'hf2:' and not serves_others(value) then
      stand_by(first, now + math.max(redis.call('PTTL', KEYS[1]), 0) * 1000)
    else
      stand_by(first, now)
    end
  end
  return true
end
local function main()
  local value = unheard or read_lock()
  if is_mine(value) then
    if string.sub(value, -1) ~= '+' and string.sub(value, #mine + 1, #mine + 2) ~= '0:' then
      free_lock()
    else
      local given, failure = pcall(give, value)
      if not given and is_mine(read_lock(look_at)) then
        free_lock()
      end
      if not given and string.sub(value, -1) ~= '+' then error(error_text(failure), 0) end
    end
    pcall(leave_tombstone, until_time)
    return 'released ' .. at
  end
  local left = member ~= '' and leave()
  if not left then
    on_master()
  end
  leave_tombstone(until_time)
  return (left and 'left ' or value and 'gone ' or 'absent ') .. at
end
return answer(main)
