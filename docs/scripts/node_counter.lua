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
local caught_up = KEYS[4]
local function standing(id)
  local known = redis.call('GET', caught_up)
  if known ~= id and string.sub(known or '', 1, #id + 1) ~= id .. '?' then
    local kept = known and (string.sub(known, -1) == '+' or not string.find(known, '?', 1, true))
    known = id .. '?' .. at .. (kept and '+' or '')
    redis.call('SET', caught_up, known)
  end
  return known
end
local function behind(stands)
  return 'behind ' .. at .. ' ' .. stands
end
local function refusal()
  local rest, _, id = quarantine()
  if rest > 0 then return quarantined(rest) end
  local stands = standing(id)
  if stands ~= id then return behind(stands), stands end
end
local function read_counter()
  local last = checked(redis.pcall('XREVRANGE', counter, '+', '-', 'COUNT', '1'))[1]
  return last and believed((fence_of(last[1])))
end
local function raise_counter(n)
  local last = read_counter() or 0
  if last < believed(n) then
    raise_to(n)
  end
  return math.max(last, n)
end
local function main()
  local refused, stands = refusal()
  if stands then return behind(whole(read_counter() or 0) .. ' ' .. stands) end
  if refused then return refused end
  return 'counter ' .. at .. ' ' .. whole(read_counter() or 0)
end
return answer(main)
