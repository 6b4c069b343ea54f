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
local function main()
  local value = read_lock()
  local waiters = redis.call('ZCOUNT', KEYS[2], '0', '+inf')
  if not value then return 'free ' .. at .. ' ' .. waiters end
  return 'held ' .. at .. ' ' .. redis.call('PTTL', KEYS[1]) .. ' ' .. waiters .. ' ' .. value
end
return answer(main)
