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
local function lock_value(head, fence, granted, chain, info)
  return head .. fence .. ':' .. granted .. ':' .. chain .. ':' .. info
end
local function main()
  local f = redis.call('HMGET', KEYS[1], 'limit', 'used', 'kind')
  if ARGV[5] and f[3] and f[3] ~= ARGV[5] then
    error('BADKIND the key holds another kind of lock, or something else', 0)
  end
  local page = redis.call('HSCAN', KEYS[1], ARGV[3], 'COUNT', ARGV[4])
  local all, lines = page[2], {}
  for i = 1, #all, 2 do
    local expiry, weight, fence, granted, info = string.match(all[i + 1], '^(%d+):(%d+):(%d+):(%d+):(.*)$')
    if expiry and tonumber(expiry) > now then
      lines[#lines + 1] = '\n' .. whole(math.floor((expiry - now) / 1000)) .. ' ' .. weight
        .. ' ' .. lock_value('hf2:' .. all[i] .. ':', fence, granted, '0', info)
    end
  end
  return 'holders ' .. at .. ' ' .. redis.call('ZCOUNT', KEYS[2], '0', '+inf') .. ' ' .. (f[2] or '0') .. ' ' .. (f[1] or '0')
    .. ' ' .. page[1] .. table.concat(lines)
end
return answer(main)
