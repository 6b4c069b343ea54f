if redis.VALKEY_VERSION_NUM == 0x90000 or redis.VALKEY_VERSION_NUM == 0x90001 then
  return redis.error_reply('ERR this version of Valkey misplaces what scripts write in several slots')
end
local try, left, refused = redis.pcall, '', 0
for k = 1, #ARGV, 2 do
  local value, freed = try('GET', ARGV[k]), nil
  if type(value) == 'table' then
    freed = value
  elseif value and string.find(value, ARGV[k + 1], 1, true) == 1 and string.sub(value, -1) ~= '+' then
    freed = try('DEL', ARGV[k])
  end
  if freed ~= 1 then
    left, refused = left .. ' ' .. (k + 1) / 2, type(freed) == 'table' and refused + 1 or refused
  end
end
return 'freed ' .. refused .. left
