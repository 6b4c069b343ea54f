local function short_fence(key, at)
  local id = redis.pcall('XADD', key, 'MAXLEN', '~', string.find(ARGV[1], 'c', 1, true) and '0' or '1', '*', 'g', '')
  local ms, seq = string.match(id.err and '' or id, '^(%d+)-(%d?%d?%d)$')
  return ms and ms * 1000 - at < 86400000000 and ms .. string.sub('00' .. seq, -3)
end
local function lock_value(head, fence, granted, chain, info)
  return head .. fence .. ':' .. granted .. ':' .. chain .. ':' .. info
end
if #KEYS == 3 then
  local clock = redis.call('TIME')
  local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
  if tonumber(at) >= tonumber(ARGV[2]) or redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
    return 'taken ' .. at .. ' 0 1'
  end
  local fence = short_fence(KEYS[3], at)
  if not fence then
    return 'taken ' .. at .. ' 0 1'
  end
  redis.call('SET', KEYS[1], lock_value(ARGV[3], fence, string.sub(at, 1, -4), '0', ARGV[5]), 'PX', ARGV[4])
  return 'taken ' .. at .. ' ' .. fence
end
local flags = ARGV[1]
local cluster = string.find(flags, 'c', 1, true)
local clock = redis.call('TIME')
local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local now = tonumber(at)
local function whole(n)
  return n == now and at or string.format('%d', n)
end
local function find_free(n)
  local which, count = {}, 0
  if now >= tonumber(ARGV[2]) then
    return which, count
  end
  local all = redis.call('EXISTS', unpack(KEYS, 1, 2 * n)) == 0
  for i = 1, n do
    if all or redis.call('EXISTS', KEYS[i], KEYS[n + i]) == 0 then
      which[i], count = true, count + 1
    end
  end
  return which, count
end
local function take_free(n, which, fence, minted)
  local granted, left = string.sub(at, 1, -4), ''
  local same, ttl, info = #ARGV == n + 4, ARGV[n + 3], ARGV[n + 4]
  local try, format = redis.pcall, string.format
  for i = 1, n do
    local set = false
    if which[i] and i <= minted then
      if not same then
        ttl, info = ARGV[n + 2 + i], ARGV[2 * n + 2 + i]
      end
      local value = lock_value(ARGV[2 + i], format('%d', fence + i - 1), granted, '0', info)
      set = try('SET', KEYS[i], value, 'NX', 'PX', ttl)
    end
    if not set or set.err then
      left = left .. ' ' .. i
    end
  end
  return 'taken ' .. at .. ' ' .. whole(fence) .. left
end
local longest_lead = 86400000000
local kept = string.find(ARGV[1], 'c', 1, true) and '0' or '1'
local function checked(reply)
  if reply.err then
    error(string.find(reply.err, 'WRONGTYPE', 1, true) and 'BADFENCE the fence counter is not a stream' or reply.err, 0)
  end
  return reply
end
local function believed(key, fence, time)
  if fence - time >= longest_lead then
    error('BADFENCE the fence counter ' .. key .. " leads the server's clock by more than a day: set that clock right if it is behind; if the counter was set by somebody, delete it, and fences follow the clock again", 0)
  end
  return fence
end
local function raise_to(key, fence)
  checked(redis.pcall('XADD', key, 'MAXLEN', '~', kept, string.format('%d-%d', math.floor(fence / 1000), fence % 1000), 'g', ''))
end
local function fence_of(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return ms * 1000 + seq, seq
end
local function next_fence(key, time)
  local id = checked(redis.pcall('XADD', key, 'MAXLEN', '~', kept, '*', 'g', ''))
  local fence, seq = fence_of(id)
  believed(key, fence, time)
  if #seq > 3 then
    raise_to(key, fence)
  end
  return fence
end
local counter = KEYS[3]
local function mint(n)
  local fence = next_fence(counter, now)
  if fence - now > 1000000 then
    n = 1
  end
  if n > 1 then
    raise_to(counter, fence + n - 1)
  end
  return fence, n
end
local function error_text(err)
  if type(err) == 'table' then
    return err.err
  end
  return (string.gsub(tostring(err), '^[^ ]*:%d+: ', ''))
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
local n = (#KEYS - 1) / 2
counter = KEYS[#KEYS]
local function main()
  local which, count = find_free(n)
  local fence, minted = 0, 0
  if count > 0 then
    fence, minted = mint(n)
  end
  return take_free(n, which, fence, minted)
end
return answer(main)
