if #KEYS == 3 then
  local clock = redis.call('TIME')
  local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
  if tonumber(at) >= tonumber(ARGV[2]) or redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
    return 'taken ' .. at .. ' 0 1'
  end
  local fence, last = at, redis.call('GET', KEYS[3])
  if last and (#last ~= #at or last >= at or not string.find(last, '^%d+$')) then
    if not string.find(last, '^%d+$') or #last > 16 or tonumber(last) - tonumber(at) >= 86400000000 then
      return 'taken ' .. at .. ' 0 1' -- acquire.lua says what is wrong with it
    end
    fence = string.format('%d', math.max(tonumber(last) + 1, tonumber(at)))
  end
  if string.find(ARGV[1], 'c', 1, true) then
    redis.call('SET', KEYS[3], fence, 'EX', 86400)
  else
    redis.call('SET', KEYS[3], fence)
  end
  redis.call('SET', KEYS[1], ARGV[3] .. fence .. ':' .. string.sub(at, 1, -4) .. ':0:' .. ARGV[5], 'PX', ARGV[4])
  return 'taken ' .. at .. ' ' .. fence
end
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
local longest_lead = 86400000000
local function believed(key, last)
  if not string.match(last, '^%d+$') or #last > 16 or tonumber(last) > 9e15 then
    error('BADFENCE the fence counter is not a number that fences can follow', 0)
  end
  if tonumber(last) - now >= longest_lead then
    error('BADFENCE the fence counter ' .. key .. " leads the server's clock by more than a day: set that clock right if it is behind; if the counter was set by somebody, delete it, and fences follow the clock again", 0)
  end
  return tonumber(last)
end
local counter = KEYS[3]
local function store_counter(fence)
  if cluster then
    redis.call('SET', counter, whole(fence), 'EX', 86400)
  else
    redis.call('SET', counter, whole(fence))
  end
end
local function mint(n)
  local fence = 0
  local last = redis.call('GET', counter)
  if last then
    fence = believed(counter, last)
  end
  fence = math.max(fence + 1, now)
  if fence - now > 1000000 then
    n = 1
  end
  store_counter(fence + n - 1)
  return fence, n
end
local n = (#KEYS - 1) / 2
counter = KEYS[#KEYS]
local function free()
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
local function take(which, fence, minted)
  local granted, left = ':' .. string.sub(at, 1, -4) .. ':0:', ''
  local same, ttl, info = #ARGV == n + 4, ARGV[n + 3], ARGV[n + 4]
  for i = 1, n do
    local set = false
    if which[i] and i <= minted then
      if not same then
        ttl, info = ARGV[n + 2 + i], ARGV[2 * n + 2 + i]
      end
      set = redis.pcall('SET', KEYS[i], ARGV[2 + i] .. whole(fence + i - 1) .. granted .. info, 'NX', 'PX', ttl)
    end
    if not set or set.err then
      left = left .. ' ' .. i
    end
  end
  return 'taken ' .. at .. ' ' .. whole(fence) .. left
end
local function main()
  local which, count = free()
  local fence, minted = 0, 0
  if count > 0 then
    fence, minted = mint(n)
  end
  return take(which, fence, minted)
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
