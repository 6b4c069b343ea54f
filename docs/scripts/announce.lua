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
local function receivers(...)
  local reply = redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', ...)
  return reply[2], reply[4]
end
local function send(channel, text)
  return redis.call(cluster and 'SPUBLISH' or 'PUBLISH', channel, text)
end
local function main()
  on_master()
  return 'told ' .. at .. ' ' .. send(ARGV[3], 'hf2 changed ' .. at)
end
return answer(main)
