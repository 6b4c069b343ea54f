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
local ttl, not_after, fence, reserved, info = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local granted_at, age, asked = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local later = math.min(fence, granted_at, asked - age)
local function last_id()
  if not cluster then return (checked(redis.pcall('XREVRANGE', counter, '+', '-', 'COUNT', '1'))[1] or {})[1] end
  local info = redis.call('EXISTS', counter) == 1 and checked(redis.pcall('XINFO', 'STREAM', counter)) or {}
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then return info[i + 1] end
  end
end
local function another_had_it()
  if now < asked then -- another clock, of which the answer says nothing
    return true
  end
  local id = last_id()
  return id and fence_of(id) >= later - later % 1000
end
local function main()
  if now >= not_after then return refuse('late') end
  local value = read_lock()
  local granted, fresh = mine .. ARGV[5] .. ':', mine .. '0:'
  if value and (string.sub(value, 1, #granted) == granted or string.sub(value, 1, #fresh) == fresh) then
    return renewed(prolong(ttl), 0)
  end
  if value or another_had_it() or redis.call('ZSCORE', KEYS[2], 'x:' .. token) then
    return refuse(value and 'gone' or 'absent')
  end
  if reserved >= now - now % 1000 then
    raise_to(reserved)
  end
  write_lock(token, new_value(token, fence, new_chain(), info, first_waiter()), ttl)
  return renewed(ttl, 0)
end
return answer(main)
