local flags = ARGV[1]
local clock = redis.call('TIME')
local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local now = tonumber(at)
local cluster = string.find(flags, 'c', 1, true)
local function whole(n)
  return n == now and at or string.format('%d', n)
end
local function message(err)
  if type(err) == 'table' then
    return err.err
  end
  return (string.gsub(tostring(err), '^[^ ]*:%d+: ', ''))
end
local token = ARGV[2]
local mine = 'hf1:' .. token .. ':'
local shared = string.find(flags, 'k', 1, true)
local function prolong(ttl)
  local pttl = math.max(redis.call('PTTL', KEYS[1]), ttl)
  redis.call('PEXPIRE', KEYS[1], pttl)
  return pttl
end
local function on_master()
  local ok, err = pcall(redis.call, 'PEXPIRE', KEYS[1], -3600000, 'GT')
  if not ok and string.sub(message(err), 1, 9) == 'READONLY ' then
    error(message(err), 0)
  end
end
local function look_at(...)
  local ok, reply = pcall(redis.call, ...)
  if ok then
    return reply
  end
  reply = message(reply)
  if not string.find(reply, 'non local key', 1, true) then
    error(reply, 0)
  end
  return nil
end
local function main()
  local what = 'other'
  local read, value = pcall(redis.call, 'GET', KEYS[1])
  if read and not value then
    what = 'nothing'
  elseif read and string.sub(value, 1, 4) == 'hf1:' then
    what = 'mutex'
  elseif not read then
    local is_hash, fields = pcall(redis.call, 'HMGET', KEYS[1], 'kind', 'holdfast')
    if is_hash then
      what = fields[1] or fields[2] and 'redisson' or what
    elseif string.sub(message(fields), 1, 10) ~= 'WRONGTYPE ' then
      what = 'unknown' -- this user may not read hashes
    end
  end
  return 'holds ' .. whole(now) .. ' ' .. what
end
local ok, reply = pcall(main)
if ok then
  return reply
end
reply = message(reply)
if string.sub(reply, 1, 9) == 'READONLY ' then
  return { err = reply }
end
return 'error ' .. reply
