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
local function main()
  local values = redis.call('MGET', unpack(KEYS))
  local n, left = #KEYS, ''
  for i = 1, n do
    local value = values[i]
    if not value or string.find(value, ARGV[1 + i], 1, true) ~= 1
      or redis.call('PEXPIRE', KEYS[i], ARGV[n + 1 + i] or ARGV[n + 2], 'GT') == 0 then
      left = left .. ' ' .. i
    end
  end
  return 'kept ' .. at .. left
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
