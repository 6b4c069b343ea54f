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
local function waiters(n)
  return look_at('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', n) or {}
end
local function first_waiter()
  return waiters(1)[1]
end
local function parse_waiter(member)
  return string.match(member, '^([^\n]*)\n(%d+)@?%d*\n([^\n]*)\n(.*)$')
end
local function settle()
  local last = (look_at('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES') or {})[2]
  if last and not first_waiter() then
    redis.call('PEXPIRE', KEYS[2], math.max(0, math.ceil((-last - now) / 1000)))
  end
end
local function lock_value(head, fence, granted, chain, info)
  return head .. fence .. ':' .. granted .. ':' .. chain .. ':' .. info
end
local wanted, queue = ARGV[3], KEYS[2]
local weighed = { rw = true, sem = true, own = true, latch = true, bar = true }
local lines = {}
local function number(text)
  local n = tonumber(text or nil)
  return n and n >= 0 and n <= 9e15 and whole(math.floor(n)) or '0'
end
local function is_wrong_type(err)
  return string.sub(error_text(err), 1, 10) == 'WRONGTYPE '
end
local function add(line)
  lines[#lines + 1] = '\n' .. string.gsub(line, '\n', ' ')
end
local function look()
  local is_string, value = pcall(redis.call, 'GET', KEYS[1])
  if is_string then
    if not value then return 'nothing' end
    if string.sub(value, 1, 4) == 'hf2:' then return 'mutex', value end
    return 'foreign', ''
  end
  local is_hash, f = false, value
  if is_wrong_type(value) then
    is_hash, f = pcall(redis.call, 'HMGET', KEYS[1], 'kind', 'holdfast', 'limit', 'count', 'fence')
  end
  if not is_hash and not is_wrong_type(f) then error(error_text(f), 0) end
  if is_hash and weighed[f[1]] then return f[1], nil, f end
  if is_hash and (f[2] or string.find(flags, 'r', 1, true)) then return 'redisson', f[2] or '' end
  return 'foreign', ''
end
local function add_holds()
  local page = redis.call('HSCAN', KEYS[1], ARGV[4], 'COUNT', ARGV[5])
  local all = page[2]
  for i = 1, #all, 2 do
    local expiry, weight, fence, granted, info = string.match(all[i + 1], '^(%d+):(%d+):(%d+):(%d+):(.*)$')
    if expiry and tonumber(expiry) > now then
      add(number((expiry - now) / 1000) .. ' ' .. number(weight) .. ' '
        .. string.sub(lock_value('hf2:' .. all[i] .. ':', fence, granted, '0', info), 1, 2048))
    end
  end
  return page[1]
end
local function add_waiters(n)
  local all = redis.call('ZRANGEBYSCORE', queue, '0', '+inf', 'WITHSCORES', 'LIMIT', '0', n)
  for i = 1, #all, 2 do
    local _, _, _, info = parse_waiter(all[i])
    local weight
    if weighed[wanted] then
      weight, info = string.match(info or '', '^(%d+)\n(.*)$')
    end
    if wanted == 'own' then info = string.match(info or '', '^[^\n]*\n(.*)$') end
    add(number(all[i + 1]) .. ' ' .. number(weight) .. ' ' .. string.sub(info or '', 1, 2048))
  end
end
local function waiting(key)
  return redis.call('ZCOUNT', key, '0', '+inf')
end
local function choose(kind)
  local known, i, kinds = kind ~= 'nothing' and kind ~= 'foreign', 1, wanted
  wanted = ''
  for of in string.gmatch(kinds, '%S+') do
    i = i + 1
    if wanted == '' and (of == kind or not known and waiting(KEYS[i]) > 0) then
      wanted, queue = of, KEYS[i]
    end
  end
  return kind == 'nothing' and wanted ~= '' and wanted or kind
end
local function main()
  local kind, value, f = look()
  if string.find(wanted, ' ', 1, true) then kind = choose(kind) end
  if wanted ~= '' and kind ~= wanted and kind ~= 'nothing' and kind ~= 'foreign' then
    error('BADKIND the key holds another kind of lock, or something else', 0)
  end
  local cursor = '0'
  if value then
    add(redis.call('PTTL', KEYS[1]) .. ' 0 ' .. string.sub(value, 1, 2048))
  elseif f then
    cursor = add_holds()
  end
  local holds, count = #lines, f and f[4] and number(f[4]) or '-1'
  f = f or {}
  local queued = queue and waiting(queue) or 0
  if wanted ~= '' then
    add_waiters(ARGV[6])
  end
  return 'status ' .. at .. ' ' .. kind .. ' ' .. number(f[5]) .. ' ' .. number(f[3]) .. ' ' .. count .. ' '
    .. queued .. ' ' .. cursor .. ' ' .. holds .. table.concat(lines)
end
return answer(main)
