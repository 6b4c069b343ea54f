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
  local left = math.max(redis.call('ZCOUNT', KEYS[1], '-inf', '+inf') - ARGV[3], 0)
  local n = math.min(left, tonumber(ARGV[4]))
  local all = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf', 'WITHSCORES', 'LIMIT', whole(left - n), whole(n))
  local lines = {}
  for i = #all - 1, 1, -2 do
    if string.match(all[i], '^hf2 %a+ [^\n]+\n[^\n]*\n[^\n]*$') and #all[i] <= 8192 then
      lines[#lines + 1] = '\n' .. whole(tonumber(all[i + 1])) .. '\n' .. all[i]
    end
  end
  return 'notes ' .. at .. ' ' .. #all / 2 .. table.concat(lines)
end
return answer(main)
