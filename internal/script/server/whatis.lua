-- whatis.lua: tells what the key of a lock holds, for people whose script was refused because it holds something else. Changes nothing.
-- KEYS    [1] lock
-- ARGV    [1] flags  [2] any token
-- Returns 'holds NOW WHAT': nothing; mutex; the kind of a lock that several may hold (shares.lua); redisson; other; or unknown
-- requires request, answer

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
