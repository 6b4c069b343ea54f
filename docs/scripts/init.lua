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
local function main()
  local new = redis.call('EXISTS', KEYS[1]) == 0
  if string.find(flags, 'l', 1, true) then return (new and 'new ' or 'known ') .. at end
  if new or string.find(flags, 'f', 1, true) then
    quarantine() -- refuses a server that cannot be used
    local id, _, longest = read_mark()
    write_mark(id, now, longest)
  end
  local rest = quarantine()
  if rest > 0 then return quarantined(rest) end
  return 'ready ' .. at
end
return answer(main)
