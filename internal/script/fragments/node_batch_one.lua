-- node_batch_one.lua: the short way of node_batch_acquire.lua, which requires it first. It acquires a single lock in the usual
-- case, and leaves every other case to the rest of the script. Making the rest's functions takes as long as all commands of an
-- acquire, so this file has few of its own.
--
-- requires request
-- requires value

-- Returns the reply, or nil to leave the acquire to the rest of the script. Before it returns nil it has written nothing.
local function acquire_one()
  local known = redis.call('MGET', KEYS[4], KEYS[5])
  local id, repl, ready, longest = string.match(known[2], '^hf1:(%w+/(%w+)):(%d+):(%d+)$')
  -- mutants: node-one-counts
  if id ~= known[1] or tonumber(ready) > now or tonumber(longest) < tonumber(string.match(flags, 's(%d+)%+')) then
    return nil
  end
  local info = redis.call('INFO', 'replication')
  -- With replicas, or a second replication id, the quarantine is longer.
  -- mutants: node-one-master
  if string.find(info, '# Replication\r\nrole:master\r\nconnected_slaves:0\r\n', 1, true) ~= 1 then
    return nil
  end
  -- A master gets a new replication id at each restart, so its run_id, which costs more, need not be read.
  -- mutants: node-one-incarnation
  if not string.find(info, '\nmaster_replid:' .. repl .. '\r\nmaster_replid2:0000000000000000000000000000000000000000\r\n', 1, true) then
    return nil
  end
  -- mutants: node-one-free
  if now >= tonumber(ARGV[2]) or redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
    return nil
  end
  -- A counter below the clock can be believed, and nearly every one is.
  local ms, seq = string.match(redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', '1')[1][1], '^(%d+)-(%d?%d?%d)$')
  -- mutants: node-one-counter
  if ms * 1000 + seq >= now then
    return nil
  end
  -- mutants: node-one-fence
  local fence = ms * 1000 + seq + 1
  -- mutants: node-one-stored
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', '1', string.format('%d-%d', math.floor(fence / 1000), fence % 1000), 'g', '')
  fence = string.format('%d', fence)
  local set = redis.pcall('SET', KEYS[1], lock_value(ARGV[3], fence, string.sub(at, 1, -4), '0', ARGV[5]), 'PX', ARGV[4])
  -- mutants: node-one-refused
  return 'taken ' .. at .. ' ' .. fence .. (set.err and ' 1' or '')
end

if #KEYS == 5 then
  local ok, reply = pcall(acquire_one)
  if ok and reply then
    return reply
  end
end
