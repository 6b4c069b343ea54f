-- holder.lua: tells who holds a lock. Changes nothing.
-- KEYS    [1] lock  [2] queue  [3] fence counter
-- ARGV    [1] flags  [2] any token
-- Returns 'held NOW PTTL WAITERS VALUE', 'free NOW WAITERS'
-- requires prelude, lock, answer

local function main()
  local value = read_lock()
  local waiters = redis.call('ZCOUNT', KEYS[2], '0', '+inf')
  if not value then return 'free ' .. at .. ' ' .. waiters end
  return 'held ' .. at .. ' ' .. redis.call('PTTL', KEYS[1]) .. ' ' .. waiters .. ' ' .. value
end

return answer(main)
