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
local function info(section, field)
  if redis.acl_check_cmd and not redis.acl_check_cmd('INFO', section) then
    return '-'
  end
  local ok, text = pcall(redis.call, 'INFO', section)
  if not ok or type(text) ~= 'string' then
    return '-'
  end
  return string.match('\n' .. text, '\n' .. field .. ':(%S+)') or '-'
end
local function main()
  return 'settings ' .. whole(now) .. ' ' .. info('memory', 'maxmemory') .. ' '
    .. info('memory', 'maxmemory_policy') .. ' ' .. info('replication', 'role')
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
