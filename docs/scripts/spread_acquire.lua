if redis.VALKEY_VERSION_NUM == 0x90000 or redis.VALKEY_VERSION_NUM == 0x90001 then
  return redis.error_reply('ERR this version of Valkey misplaces what scripts write in several slots')
end
local flags = ARGV[1]
local cluster = string.find(flags, 'c', 1, true)
local clock = redis.call('TIME')
local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local now = tonumber(at)
local function whole(n)
  return n == now and at or string.format('%d', n)
end
local function short_fence(key, at)
  local id = redis.pcall('XADD', key, 'MAXLEN', '~', string.find(ARGV[1], 'c', 1, true) and '0' or '1', '*', 'g', '')
  local ms, seq = string.match(id.err and '' or id, '^(%d+)-(%d?%d?%d)$')
  return ms and ms * 1000 - at < 86400000000 and ms .. string.sub('00' .. seq, -3)
end
local function lock_value(head, fence, granted, chain, info)
  return head .. fence .. ':' .. granted .. ':' .. chain .. ':' .. info
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
local not_after, all_ttl, all_info = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local granted, try = string.sub(at, 1, -4), redis.pcall
local function take(lock, queue, counter, head, ttl, info)
  local there = try('EXISTS', lock, queue)
  if there ~= 0 then
    return nil, type(there) == 'table'
  end
  local fence = short_fence(counter, at)
  if not fence or try('SET', lock, lock_value(head, fence, granted, '0', info), 'PX', ttl).err then
    return nil, true
  end
  return fence
end
local function main()
  local fences, refused = '', 0
  local late = now >= not_after
  for k = 5, #ARGV, all_ttl == '' and 6 or 4 do
    local fence, by_server
    if not late then
      local ttl, info = all_ttl, all_info
      if ttl == '' then
        ttl, info = ARGV[k + 4], ARGV[k + 5]
      end
      fence, by_server = take(ARGV[k], ARGV[k + 1], ARGV[k + 2], ARGV[k + 3], ttl, info)
    end
    fences, refused = fences .. ' ' .. (fence or 0), by_server and refused + 1 or refused
  end
  return 'taken ' .. at .. ' ' .. refused .. fences
end
return answer(main)
