local flags = ARGV[1]
local cluster = string.find(flags, 'c', 1, true)
local clock = redis.call('TIME')
local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local now = tonumber(at)
local function whole(n)
  return n == now and at or string.format('%d', n)
end
local function error_text(err)
  if type(err) == 'table' then
    return err.err
  end
  return (string.gsub(tostring(err), '^[^ ]*:%d+: ', ''))
end
local token = ARGV[2]
local mine = 'hf2:' .. token .. ':'
local shared = string.find(flags, 'k', 1, true)
local function is_mine(value)
  return value and string.sub(value, 1, #mine) == mine
end
local function on_master()
  local ok, err = pcall(redis.call, 'PEXPIRE', KEYS[1], -3600000, 'GT')
  if not ok and string.sub(error_text(err), 1, 9) == 'READONLY ' then
    error(error_text(err), 0)
  end
end
local function look_at(...)
  local ok, reply = pcall(redis.call, ...)
  if ok then
    return reply
  end
  reply = error_text(reply)
  if not string.find(reply, 'non local key', 1, true) then
    error(reply, 0)
  end
  return nil
end
local record = KEYS[2]
local function keep_record(keep)
  if redis.call('PTTL', record) < keep then
    redis.call('PEXPIRE', record, keep)
  end
end
local function answer(main)
  local ok, reply = pcall(main)
  if ok then
    return reply
  end
  reply = error_text(reply)
  if string.sub(reply, 1, 9) == 'READONLY ' then
    return { err = reply }
  end
  return 'error ' .. reply
end
local keep, fence, info, result = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local function completed(done, count)
  return 'completed ' .. whole(now) .. ' ' .. done .. ' ' .. count
end
local function main()
  local f = redis.call('HMGET', record, 'done', 'fence', 'count', 'tries', 'last')
  if f[2] == fence then
    on_master()
    return completed(f[1], f[3])
  end
  local value = redis.call('GET', KEYS[1])
  if not is_mine(value) then
    on_master()
    return (value and 'gone ' or 'absent ') .. whole(now)
  end
  redis.call('HDEL', record, 'tries', 'first')
  local count = f[5] == fence and f[4] or '1'
  redis.call('HSET', record, 'done', whole(now), 'fence', fence, 'info', info, 'result', result, 'count', count)
  keep_record(keep)
  return completed(whole(now), count)
end
return answer(main)
