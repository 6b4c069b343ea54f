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
  local id, text, lines = ARGV[3], ARGV[4], {}
  if text ~= '' then
    redis.call('HSET', KEYS[1], id, at .. ' ' .. text)
    redis.call('PEXPIRE', KEYS[1], 5000)
  elseif id ~= '' then
    redis.call('HDEL', KEYS[1], id)
  else
    local all = redis.call('HSCAN', KEYS[1], '0', 'COUNT', '100')[2]
    for i = 2, #all, 2 do
      local since, said = string.match(all[i], '^(%d+) ([^\n]+)$')
      if since and now - tonumber(since) < 5000000 and #said <= 16384 then
        lines[#lines + 1] = '\n' .. said
      else
        redis.pcall('HDEL', KEYS[1], all[i - 1]) -- not all who read may delete
      end
    end
  end
  return 'waits ' .. at .. ' ' .. #lines .. table.concat(lines)
end
return answer(main)
