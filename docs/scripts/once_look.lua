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
local record = KEYS[2]
local function counts(done, window)
  return done and (window == 0 or now < done + window * 1000)
end
local function latest(done, window)
  local f = redis.call('HMGET', record, 'fence', 'count', 'info', 'result')
  return 'done ' .. at .. ' ' .. whole(done) .. ' ' .. f[1] .. ' ' .. f[2] .. ' '
    .. (counts(done, window) and 'counts ' or 'over ') .. f[3] .. '\n' .. f[4]
end
local function main()
  local f = redis.call('HMGET', record, 'done', 'tries')
  if f[1] then return latest(tonumber(f[1]), tonumber(ARGV[3])) end
  return 'none ' .. at .. ' ' .. (f[2] or 0)
end
return answer(main)
