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
local try, left, refused, i = redis.pcall, '', 0, 0
local all_ttl = ARGV[2]
for k = 3, #ARGV, all_ttl == '' and 3 or 2 do
  i = i + 1
  local value, kept = try('GET', ARGV[k]), nil
  if type(value) == 'table' then
    kept = value
  elseif value and string.find(value, ARGV[k + 1], 1, true) == 1 then
    kept = try('PEXPIRE', ARGV[k], all_ttl == '' and ARGV[k + 2] or all_ttl, 'GT')
  end
  if kept ~= 1 then
    left, refused = left .. ' ' .. i, type(kept) == 'table' and refused + 1 or refused
  end
end
return 'kept ' .. at .. ' ' .. refused .. left
