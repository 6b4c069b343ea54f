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
local function acquire_one()
  local known = redis.call('MGET', KEYS[4], KEYS[5])
  local id, repl, ready, longest = string.match(known[2], '^hf1:(%w+/(%w+)):(%d+):(%d+)$')
  if id ~= known[1] or tonumber(ready) > now or tonumber(longest) < tonumber(string.match(flags, 's(%d+)%+')) then
    return nil
  end
  local info = redis.call('INFO', 'replication')
  if string.find(info, '# Replication\r\nrole:master\r\nconnected_slaves:0\r\n', 1, true) ~= 1 then
    return nil
  end
  if not string.find(info, '\nmaster_replid:' .. repl .. '\r\nmaster_replid2:0000000000000000000000000000000000000000\r\n', 1, true) then
    return nil
  end
  if now >= tonumber(ARGV[2]) or redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
    return nil
  end
  local ms, seq = string.match(redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', '1')[1][1], '^(%d+)-(%d?%d?%d)$')
  if ms * 1000 + seq >= now then
    return nil
  end
  local fence = ms * 1000 + seq + 1
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', '1', string.format('%d-%d', math.floor(fence / 1000), fence % 1000), 'g', '')
  fence = string.format('%d', fence)
  local set = redis.pcall('SET', KEYS[1], lock_value(ARGV[3], fence, string.sub(at, 1, -4), '0', ARGV[5]), 'PX', ARGV[4])
  return 'taken ' .. at .. ' ' .. fence .. (set.err and ' 1' or '')
end
if #KEYS == 5 then
  local ok, reply = pcall(acquire_one)
  if ok and reply then
    return reply
  end
end
local function find_free(n)
  local which, count = {}, 0
  if now >= tonumber(ARGV[2]) then
    return which, count
  end
  local all = redis.call('EXISTS', unpack(KEYS, 1, 2 * n)) == 0
  for i = 1, n do
    if all or redis.call('EXISTS', KEYS[i], KEYS[n + i]) == 0 then
      which[i], count = true, count + 1
    end
  end
  return which, count
end
local function take_free(n, which, fence, minted)
  local granted, left = string.sub(at, 1, -4), ''
  local same, ttl, info = #ARGV == n + 4, ARGV[n + 3], ARGV[n + 4]
  local try, format = redis.pcall, string.format
  for i = 1, n do
    local set = false
    if which[i] and i <= minted then
      if not same then
        ttl, info = ARGV[n + 2 + i], ARGV[2 * n + 2 + i]
      end
      local value = lock_value(ARGV[2 + i], format('%d', fence + i - 1), granted, '0', info)
      set = try('SET', KEYS[i], value, 'NX', 'PX', ttl)
    end
    if not set or set.err then
      left = left .. ' ' .. i
    end
  end
  return 'taken ' .. at .. ' ' .. whole(fence) .. left
end
local function error_text(err)
  if type(err) == 'table' then
    return err.err
  end
  return (string.gsub(tostring(err), '^[^ ]*:%d+: ', ''))
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
    error('NOSTRICT INFO, by which a loss of data is noticed, is not to be had: ' .. error_text(info), 0)
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
local longest_lead = 86400000000
local kept = string.find(ARGV[1], 'c', 1, true) and '0' or '1'
local function checked(reply)
  if reply.err then
    error(string.find(reply.err, 'WRONGTYPE', 1, true) and 'BADFENCE the fence counter is not a stream' or reply.err, 0)
  end
  return reply
end
local function believed(key, fence, time)
  if fence - time >= longest_lead then
    error('BADFENCE the fence counter ' .. key .. " leads the server's clock by more than a day: set that clock right if it is behind; if the counter was set by somebody, delete it, and fences follow the clock again", 0)
  end
  return fence
end
local function raise_to(key, fence)
  checked(redis.pcall('XADD', key, 'MAXLEN', '~', kept, string.format('%d-%d', math.floor(fence / 1000), fence % 1000), 'g', ''))
end
local function fence_of(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return ms * 1000 + seq, seq
end
local function next_fence(key, time)
  local id = checked(redis.pcall('XADD', key, 'MAXLEN', '~', kept, '*', 'g', ''))
  local fence, seq = fence_of(id)
  believed(key, fence, time)
  if #seq > 3 then
    raise_to(key, fence)
  end
  return fence
end
local counter, caught_up = KEYS[#KEYS - 2], KEYS[#KEYS - 1]
local function resting(rest)
  return 'quarantined ' .. whole(now) .. ' ' .. rest
end
local function standing(id, known)
  known = known or redis.call('GET', caught_up)
  if known ~= id and string.sub(known or '', 1, #id + 1) ~= id .. '?' then
    local kept = known and (string.sub(known, -1) == '+' or not string.find(known, '?', 1, true))
    known = id .. '?' .. whole(now) .. (kept and '+' or '')
    redis.call('SET', caught_up, known)
  end
  return known
end
local function behind(stands)
  return 'behind ' .. whole(now) .. ' ' .. stands
end
local function refusal(mark, known)
  local rest, _, id = quarantine(mark)
  if rest > 0 then
    return resting(rest)
  end
  local stands = standing(id, known)
  if stands ~= id then
    return behind(stands), stands
  end
end
local function read_counter()
  local last = checked(redis.pcall('XREVRANGE', counter, '+', '-', 'COUNT', '1'))[1]
  return last and believed(counter, fence_of(last[1]), now)
end
local function raise_counter(n)
  local last = read_counter() or 0
  if last < believed(counter, n, now) then
    raise_to(counter, n)
  end
  return math.max(last, n)
end
local function answer(main)
  local ok, reply = pcall(main)
  if ok then
    return reply
  end
  reply = error_text(reply)
  if string.sub(reply, 1, 9) == 'READONLY ' then
    return { err = reply }
  end
  return 'error ' .. reply
end
local n = (#KEYS - 3) / 2
local function main()
  local known = redis.call('MGET', caught_up, KEYS[#KEYS])
  local refused = refusal(known[2], known[1])
  if refused then
    return refused
  end
  local which, count = find_free(n)
  local fence = 0
  if count > 0 then
    fence = (read_counter() or now) + 1
    raise_to(counter, fence + n - 1)
  end
  return take_free(n, which, fence, n)
end
return answer(main)
