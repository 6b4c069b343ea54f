local flags = ARGV[1]
local cluster = string.find(flags, 'c', 1, true)
local clock = redis.call('TIME')
local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local now = tonumber(at)
local function whole(n)
  return n == now and at or string.format('%d', n)
end
local function queue_up()
  local value, not_after = redis.call('GET', KEYS[1]), tonumber(ARGV[4])
  local holder = value and string.match(value, '^hf2:([^:]*):%d+:%d+:0:')
  if not holder or holder == ARGV[2] or not_after > 0 and now >= not_after then return nil end
  local first, channel = redis.call('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES'), ''
  if first[1] then
    channel = string.match(first[1], '^[^\n]*\n%d+@?%d*\n([^\n]*)\n')
    if not channel or tonumber(first[2]) <= now - 60000000 then return nil end
    if tonumber(redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2]) >= now then return nil end
  end
  local heard = redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', ARGV[8], channel)
  if first[1] and heard[4] == 0 then return nil end
  local pttl = redis.call('PTTL', KEYS[1])
  if redis.call('ZADD', KEYS[2], 'NX', at, ARGV[2] .. '\n' .. ARGV[7] .. '\n' .. ARGV[8] .. '\n' .. ARGV[6]) == 0 then
    return nil
  end
  if redis.call('PTTL', KEYS[2]) < 60000 then
    redis.call('PEXPIRE', KEYS[2], 70000)
  end
  if string.sub(value, -1) ~= '+' then
    redis.call('APPEND', KEYS[1], '+')
  end
  local rank = first[1] and redis.call('ZCOUNT', KEYS[2], '0', at) or 1
  return 'queued ' .. at .. ' ' .. pttl .. ' ' .. at .. ' ' .. rank .. ' ' .. heard[2] .. ' ours'
end
if (flags == 'w' or flags == 'wc') and ARGV[9] == '' then
  local ok, reply = pcall(queue_up)
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
local function lock_value(head, fence, granted, chain, info)
  return head .. fence .. ':' .. granted .. ':' .. chain .. ':' .. info
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
local try, look = string.find(flags, 't', 1, true), string.find(flags, 'l', 1, true)
local ttl, not_after, block, info = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local function granted(pttl, fence, n)
  return 'granted ' .. at .. ' ' .. pttl .. ' ' .. whole(fence) .. ' ' .. n
end
local function is_late()
  return not look and not_after > 0 and now >= not_after
end
local old_age = 60000000
local head
local function read_head(member)
  local entry = redis.call('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES')
  if not entry[1] or tonumber(entry[2]) > now - old_age then
    head = entry[1] or member
  end
end
local function drop_old(self)
  if head then return end
  local old = redis.call('ZCOUNT', KEYS[2], '0', whole(now - old_age))
  if old == 0 then return end
  local from = redis.call('ZCOUNT', KEYS[2], '-inf', '(0') + now % math.max(old - 19, 1)
  local some = redis.call('ZRANGE', KEYS[2], whole(from), whole(from + math.min(old, 20) - 1))
  for i, count in ipairs(hearers(some)) do
    if count == 0 and some[i] ~= self then
      redis.call('ZREM', KEYS[2], some[i])
    end
  end
end
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
  if redis.call('PTTL', KEYS[2]) < 60000 then
    redis.call('PEXPIRE', KEYS[2], 70000)
  end
  if known or not head then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. whole(-now), '(0')
  end
  return score
end
local function rank(member, score, channel)
  local n = redis.call('ZCOUNT', KEYS[2], '0', whole(score))
  if n <= 1 then return 1, receivers(channel) end
  local _, _, first = parse_waiter(head or first_waiter())
  local own, ahead = receivers(channel, first or '')
  if ahead == 0 then n = n - dead_ahead(100, member) end
  return math.max(n, 1), own
end
local function queued(member, channel, pttl, score, kind)
  local position, own = rank(member, score, channel)
  return 'queued ' .. at .. ' ' .. whole(pttl) .. ' ' .. whole(score) .. ' ' .. position .. ' ' .. own .. ' ' .. kind
end
local member = not try and token .. '\n' .. ARGV[7] .. '\n' .. ARGV[8] .. '\n' .. info
local function take()
  local fence, n = mint(block)
  write_lock(token, new_value(token, fence, new_chain(), info, false), ttl)
  return granted(ttl, fence, n)
end
local function mark_lock(value)
  if redisson then
    redis.call('HSET', KEYS[1], 'holdfast', value .. '+')
  else
    redis.call('APPEND', KEYS[1], '+')
  end
end
local function main()
  local rest = quarantine()
  local value = read_lock()
  if rest == 0 and not value and not look and redis.call('EXISTS', KEYS[2]) == 0 then
    if is_late() then return refuse('late') end
    return take()
  end
  if is_mine(value) then
    if rest == 0 then
      local pttl = prolong(ttl)
      return granted(pttl, tonumber(string.match(value, '^%d+', #mine + 1)), 1)
    end
    if try then return quarantined(rest) end
    return queued(member, ARGV[8], math.min(redis.call('PTTL', KEYS[1]), rest), tonumber(ARGV[9]) or now, 'ours')
  end
  if not try then
    read_head(member)
  end
  if not head and redis.call('ZSCORE', KEYS[2], 'x:' .. token) then return refuse('gone') end
  if is_late() then return refuse('late') end
  local left = not value and rest == 0 and gap() or 0
  if try then
    if not value and rest > 0 then return quarantined(rest) end
    if not value and left == 0 then
      hand_over(new_chain())
      value = read_lock()
      if not value then return take() end
    end
    local pttl = value and redis.call('PTTL', KEYS[1]) or left
    return refuse('held', pttl .. ' ' .. redis.call('ZCOUNT', KEYS[2], '0', '+inf') .. ' ' .. (value or ''))
  end
  if look and not redis.call('ZSCORE', KEYS[2], member) then return refuse('gone') end
  local score = enqueue(member, ARGV[9])
  if not value and rest == 0 and left == 0 then
    head = nil
    local fence, n = hand_over(new_chain(), member, ttl, block)
    if fence then return granted(ttl, fence, n) end
    value = read_lock()
  end
  local kind, pttl = 'ours', math.max(rest, left)
  if value then
    pttl = redis.call('PTTL', KEYS[1])
    if pttl >= 0 then pttl = math.max(pttl, rest) end
    local ours = string.sub(value, 1, 4) == 'hf2:'
    if not ours or serves_others(value) then kind = 'foreign' end
    if ours and string.sub(value, -1) ~= '+' then
      mark_lock(value)
    end
  end
  return queued(member, ARGV[8], pttl, score, kind)
end
return answer(main)
