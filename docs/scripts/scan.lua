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
local companions = { q = true, rw = true, sem = true, own = true, bar = true, redisson = true }
local function is_wanted(key)
  if string.sub(key, -1) ~= '}' and not companions[string.match(key, ':(%a+)$')] or string.find(key, '%c') then
    return false
  end
  for i = 6, #ARGV do
    if string.sub(key, 1, #ARGV[i]) == ARGV[i] then return true end
  end
  return false
end
local function main()
  local page = redis.call('SCAN', ARGV[3], 'MATCH', ARGV[5], 'COUNT', ARGV[4])
  local text, lines = '', {}
  for _, key in ipairs(page[2]) do
    if is_wanted(key) then
      lines[#lines + 1] = '\n' .. key
    end
    if #lines == 1000 then text, lines = text .. table.concat(lines), {} end
  end
  return 'keys ' .. at .. ' ' .. page[1] .. text .. table.concat(lines)
end
return answer(main)
