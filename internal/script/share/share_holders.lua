-- share_holders.lua: tells who holds a lock that several may hold, some holds at a time. Changes nothing.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds
-- ARGV    [1] flags  [2] any token  [3] 0, or the CURSOR of the reply before  [4] about how many holds to read
--         [5] the kind that the lock must have, or absent
-- Returns 'holders NOW WAITERS USED LIMIT CURSOR' and for each hold a line feed and 'PTTL WEIGHT VALUE', VALUE in the form of a mutex's.
--             USED includes expired holds until they are swept out. With CURSOR 0 these were the last; otherwise ask again, even if the
--             reply has no holds
-- Invariants: a hold that exists from the first call to the last is told at least once.
-- requires prelude, value, answer

local function main()
  local f = redis.call('HMGET', KEYS[1], 'limit', 'used', 'kind')
  if ARGV[5] and f[3] and f[3] ~= ARGV[5] then
    error('BADKIND the key holds another kind of lock, or something else', 0)
  end
  local page = redis.call('HSCAN', KEYS[1], ARGV[3], 'COUNT', ARGV[4])
  local all, lines = page[2], {}
  for i = 1, #all, 2 do
    local expiry, weight, fence, granted, info = string.match(all[i + 1], '^(%d+):(%d+):(%d+):(%d+):(.*)$')
    if expiry and tonumber(expiry) > now then
      lines[#lines + 1] = '\n' .. whole(math.floor((expiry - now) / 1000)) .. ' ' .. weight
        .. ' ' .. lock_value('hf2:' .. all[i] .. ':', fence, granted, '0', info)
    end
  end
  return 'holders ' .. at .. ' ' .. redis.call('ZCOUNT', KEYS[2], '0', '+inf') .. ' ' .. (f[2] or '0') .. ' ' .. (f[1] or '0')
    .. ' ' .. page[1] .. table.concat(lines)
end

return answer(main)
