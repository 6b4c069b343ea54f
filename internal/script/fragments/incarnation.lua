-- incarnation.lua: whether this server may have lost locks (Strict mode, the flag 's'). Then scripts that require this have one more key,
-- the last, which their headers do not list: the incarnation mark, hf2:RUN/REPL:READY:LONGEST. RUN is the server's run_id, new after every
-- restart; REPL its replication id, new after every promotion. READY is the server time (µs) before which nothing may be granted, LONGEST
-- the longest quarantine (ms) that a client has asked for.
-- If the mark is missing or names another incarnation, locks may have been lost whose holders still believe in them. Then nothing is
-- granted until they have expired: the quarantine.
-- requires request, answer

local quarantine_time, replica_lag = string.match(flags, 's(%d+)%+(%d+)')

-- Returns what INFO has after a field's name. One pattern for both would be tried at every byte.
local function told(info, name, pattern)
  local _, last = string.find(info, name, 1, true)
  return last and string.match(info, pattern, last + 1)
end

-- Reports whether another master may have granted locks meanwhile: if this server has replicas, or was one, its master may go on.
local function replicated(info)
  local replicas = tonumber(told(info, 'connected_slaves:', '^%d+') or 0)
  if replicas > 0 and not string.find(info, 'min_slaves_good_slaves:', 1, true) then
    error('NOSTRICT this server has replicas, but min-replicas-to-write and min-replicas-max-lag are not both set: when one of them is promoted, this server could go on granting locks', 0)
  end
  return replicas > 0 or not told(info, 'master_replid2:', '^0+%s')
end

local function incarnation(info)
  -- A replica may accept writes, which its master does not see.
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

-- Returns for how many ms nothing may be granted yet (0 without the flag), whether other masters may have granted locks meanwhile, and the
-- present incarnation, to which it sets the mark.
local function quarantine()
  if not quarantine_time then return 0 end
  local known, info = pcall(redis.call, 'INFO', 'server', 'replication')
  if not known then
    error('NOSTRICT INFO, by which a loss of data is noticed, is not to be had: ' .. error_text(info), 0)
  end
  local self, others = incarnation(info), replicated(info)
  -- mutants: replicas-wait
  local wanted = quarantine_time + (others and replica_lag or 0)
  local id, ready, longest = read_mark()
  if id ~= self then
    longest = math.max(wanted, longest)
    ready = now + longest * 1000
    write_mark(self, ready, longest)
  elseif wanted > longest then
    -- This client's leases last longer than any before.
    -- mutants: quarantine-lengthened
    ready = ready > now and ready + (wanted - longest) * 1000 or ready
    write_mark(self, ready, wanted)
  elseif ready > now + longest * 1000 then
    -- The clock went back.
    ready = now + longest * 1000
    write_mark(self, ready, longest)
  end
  return math.max(0, math.ceil((ready - now) / 1000)), others, self
end

local function quarantined(rest)
  return 'quarantined ' .. at .. ' ' .. rest
end
