-- latch_look.lua: returns a latch's count. If it is asked about the present count and there is none, it begins one.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds
-- ARGV    [1] flags  [2] any token  [3] parties  [4] the count that is asked about: its SINCE, or 0 for the present one
-- Returns 'count NOW SINCE COUNT MISSING PTTL'  so many parties are left; PTTL is what is left until a party that has joined may have
--                               died, -1 if none has joined
--         'opened NOW MISSING'  that count has come to 0, and another has begun since
--         'reset NOW'           another count has begun, and that one may not have come to 0
-- requires prelude, parties, shares, answer

local parties, asked = tonumber(ARGV[3]), ARGV[4]

local function main()
  -- An earlier count may have had another number of parties.
  load('latch', asked == '0' and parties or nil)
  local f = redis.call('HMGET', KEYS[1], 'since', 'missing', 'opened', 'opened_missing', 'count')
  if f[5] then
    extend_keys(latch_ttl)
  end
  on_master()
  if asked == '0' or asked == f[1] then
    local rest = -1
    if used > 0 then rest = math.max(math.ceil((next_expiry - now) / 1000), 0) end
    return 'count ' .. at .. ' ' .. f[1] .. ' ' .. whole(seats) .. ' ' .. f[2] .. ' ' .. whole(rest)
  elseif asked == f[3] then
    return 'opened ' .. at .. ' ' .. f[4]
  end
  return 'reset ' .. at
end
