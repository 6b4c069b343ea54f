-- share_holders.lua: says who holds a lock that several may hold. Changes nothing.
--
-- KEYS    [1] lock  [2] queue  [3] fence counter
-- ARGV    [1] flags as in prelude.lua  [2] any token
-- Returns 'holders NOW WAITERS USED LIMIT' and for each hold a line feed and
--         'PTTL WEIGHT VALUE', VALUE as a mutex's is written
--         'error MESSAGE'

-- include prelude.lua

local function main()
  local all = redis.call('HGETALL', KEYS[1])
  local limit, used, lines = '0', 0, {}
  for i = 1, #all, 2 do
    local expiry, weight, fence, granted, info = string.match(all[i + 1], '^(%d+):(%d+):(%d+):(%d+):(.*)$')
    if expiry and tonumber(expiry) > now then
      used = used + tonumber(weight)
      lines[#lines + 1] = '\n' .. whole(math.floor((expiry - now) / 1000)) .. ' ' .. weight
        .. ' hf1:' .. all[i] .. ':' .. fence .. ':' .. granted .. ':0:' .. info
    elseif all[i] == 'limit' then
      limit = all[i + 1]
    end
  end
  return 'holders ' .. whole(now) .. ' ' .. redis.call('ZCOUNT', KEYS[2], '0', '+inf') .. ' ' .. whole(used) .. ' ' .. limit .. table.concat(lines)
end

-- include answer.lua
