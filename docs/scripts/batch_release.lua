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
  local values = redis.call('MGET', unpack(KEYS))
  local ours, left = {}, ''
  for i = 1, #KEYS do
    local value = values[i]
    if value and string.find(value, ARGV[i], 1, true) == 1 and string.sub(value, -1) ~= '+' then
      ours[#ours + 1] = KEYS[i]
    else
      left = left .. ' ' .. i
    end
  end
  if #ours > 0 then
    redis.call('DEL', unpack(ours))
  end
  return 'freed' .. left
end
return answer(main)
