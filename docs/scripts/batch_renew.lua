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
local function main()
  local values = redis.call('MGET', unpack(KEYS))
  local n, left = #KEYS, ''
  for i = 1, n do
    local value, granted = values[i], ARGV[1 + i]
    local ours = value and string.find(value, granted, 1, true) == 1
    if value and not ours then
      local fresh = string.match(granted, '^hf2:[^:]*:') .. '0:'
      ours = string.find(value, fresh, 1, true) == 1
      if ours then
        pcall(redis.call, 'SET', KEYS[i], granted .. string.sub(value, #fresh + 1), 'KEEPTTL')
      end
    end
    if not ours
      or redis.call('PEXPIRE', KEYS[i], ARGV[n + 1 + i] or ARGV[n + 2], 'GT') == 0 then
      left = left .. ' ' .. i
    end
  end
  return 'kept ' .. at .. left
end
return answer(main)
