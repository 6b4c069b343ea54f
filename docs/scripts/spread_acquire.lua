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
    return false, type(there) == 'table'
  end
  local last = try('GET', counter)
  if last and (type(last) == 'table' or #last ~= #at or last >= at or not string.find(last, '^%d+$')) then
    return false, type(last) == 'table'
  end
  if try('SET', counter, at, 'EX', 86400).err then
    return false, true
  end
  local refused = try('SET', lock, lock_value(head, at, granted, '0', info), 'PX', ttl).err
  return not refused, refused
end
local function main()
  local left, refused, i = '', 0, 0
  local late = now >= not_after
  for k = 5, #ARGV, all_ttl == '' and 6 or 4 do
    i = i + 1
    local taken, by_server = false, false
    if not late then
      local ttl, info = all_ttl, all_info
      if ttl == '' then
        ttl, info = ARGV[k + 4], ARGV[k + 5]
      end
      taken, by_server = take(ARGV[k], ARGV[k + 1], ARGV[k + 2], ARGV[k + 3], ttl, info)
    end
    if not taken then
      left, refused = left .. ' ' .. i, by_server and refused + 1 or refused
    end
  end
  return 'taken ' .. at .. ' ' .. refused .. left
end
return answer(main)
