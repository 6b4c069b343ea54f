local flags = ARGV[1]
local cluster = string.find(flags, 'c', 1, true)
local clock = redis.call('TIME')
local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local now = tonumber(at)
local function whole(n)
  return n == now and at or string.format('%d', n)
end
local journal_length = 1000
local function announce(channel, what, grant, fence, key, note)
  redis.call(cluster and 'SPUBLISH' or 'PUBLISH', channel, table.concat({ 'hf2', what, at, grant, fence, key }, ' ') .. '\n' .. note)
end
local longest_ahead = 86400000000
local function write_journal(journal, what, id, grant, fence, raised, kind, key, note, holder)
  redis.call('ZREMRANGEBYSCORE', journal, whole(now + longest_ahead), '+inf')
  local last = redis.call('ZRANGE', journal, '-1', '-1', 'WITHSCORES')[2]
  local score = math.max(now, tonumber(last or 0) + 1)
  local head = table.concat({ 'hf2', what, id, grant, fence, raised, kind, key }, ' ')
  redis.call('ZADD', journal, whole(score), table.concat({ head, note, holder }, '\n'))
  if redis.call('ZCOUNT', journal, '-inf', '+inf') >= journal_length + 100 then
    redis.call('ZREM', journal, unpack(redis.call('ZRANGEBYSCORE', journal, '-inf', '+inf', 'LIMIT', '0', '100')))
  end
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
local function main()
  write_journal(KEYS[1], ARGV[4], ARGV[2], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11])
  announce(ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[9], ARGV[10])
  return 'noted ' .. at
end
return answer(main)
