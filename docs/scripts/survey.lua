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
local function may(...)
  return not redis.acl_check_cmd or redis.acl_check_cmd(...)
end
local function info(section, field)
  if not may('INFO', section) then return '-' end
  local ok, text = pcall(redis.call, 'INFO', section)
  if not ok or type(text) ~= 'string' then return '-' end
  return string.match('\n' .. text, '\n' .. field .. ':(%S+)') or '-'
end
local function main()
  return 'settings ' .. at .. ' ' .. info('memory', 'maxmemory') .. ' '
    .. info('memory', 'maxmemory_policy') .. ' ' .. info('replication', 'role') .. ' '
    .. (ARGV[3] ~= '' and may('EXISTS', ARGV[3]) and redis.call('EXISTS', ARGV[3]) == 1 and 'strict' or '-')
end
return answer(main)
