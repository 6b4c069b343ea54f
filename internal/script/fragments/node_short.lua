-- node_short.lua: the short way of node_acquire.lua, which requires it first. It grants a lock in the usual case, and leaves every
-- other case to the rest of the script. Making the rest's functions takes as long as all commands of an acquire, so this file
-- has few of its own.
--
-- requires request
-- requires value

-- Returns the reply, or nil to leave the acquire to the rest of the script. Before it returns nil it has set no lock.
local function grant_free()
  local known = redis.call('MGET', KEYS[4], KEYS[5])
  local id, repl, ready, longest = string.match(known[2], '^hf2:(%w+/(%w+)):(%d+):(%d+)$')
  -- mutants: node-short-counts
  if id ~= known[1] or tonumber(ready) > now or tonumber(longest) < tonumber(string.match(flags, 's(%d+)%+')) then
    return nil
  end
  local info = redis.call('INFO', 'replication')
  -- With replicas, or a second replication id, the quarantine is longer.
  -- mutants: node-short-master
  if string.find(info, '# Replication\r\nrole:master\r\nconnected_slaves:0\r\n', 1, true) ~= 1 then
    return nil
  end
  -- A master gets a new replication id at each restart, so its run_id, which costs more, need not be read.
  -- mutants: node-short-incarnation
  if not string.find(info, '\nmaster_replid:' .. repl .. '\r\nmaster_replid2:0000000000000000000000000000000000000000\r\n', 1, true) then
    return nil
  end
  -- mutants: node-short-free
  if now >= tonumber(ARGV[4]) or redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
    return nil
  end
  -- A counter below the clock can be believed, and nearly every one is.
  local ms, seq = string.match(redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', '1')[1][1], '^(%d+)-(%d?%d?%d)$')
  -- mutants: node-short-counter
  if ms * 1000 + seq >= now then
    return nil
  end
  -- mutants: node-short-fence
  local fence = ms * 1000 + seq + 1
  -- mutants: node-short-stored
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', '1', string.format('%d-%d', math.floor(fence / 1000), fence % 1000), 'g', '')
  fence = string.format('%d', fence)
  redis.call('SET', KEYS[1], lock_value('hf2:' .. ARGV[2] .. ':', fence, string.sub(at, 1, -4), '0', ARGV[5]), 'PX', ARGV[3])
  return 'granted ' .. at .. ' ' .. ARGV[3] .. ' ' .. fence
end

-- mutants: node-short
if ARGV[6] == '' or ARGV[6] == '0' then
  local ok, reply = pcall(grant_free)
  if ok and reply then
    return reply
  end
end
