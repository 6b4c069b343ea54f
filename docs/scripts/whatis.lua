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
  local what = 'other'
  local read, value = pcall(redis.call, 'GET', KEYS[1])
  if read and not value then
    what = 'nothing'
  elseif read and string.sub(value, 1, 4) == 'hf2:' then
    what = 'mutex'
  elseif not read then
    local is_hash, fields = pcall(redis.call, 'HMGET', KEYS[1], 'kind', 'holdfast')
    if is_hash then
      what = fields[1] or fields[2] and 'redisson' or what
    elseif string.sub(error_text(fields), 1, 10) ~= 'WRONGTYPE ' then
      what = 'unknown' -- this user may not read hashes
    end
  end
  return 'holds ' .. at .. ' ' .. what
end
return answer(main)
