-- barrier_withdraw.lua: takes back an await of a barrier, and all earlier ones of its party. A phase that has tripped stays so.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds
-- ARGV    [1] flags  [2] the party's token  [3] number of the await
-- Returns 'withdrawn NOW'  the await does not count, and no copy of it will
--         'stale NOW', 'gone NOW'  the party is at a later await; the token is no party's
-- requires prelude, shares, barrier_phase, answer

local function main()
  local hold = load('bar')
  if not hold then return refuse('gone') end
  load_phase()
  if number < last_number then return refuse('stale') end
  insist()
  if inside and last_phase == phase then
    -- mutants: withdraw
    arrived = arrived - 1
  end
  redis.call('HSET', KEYS[1], 'phase', whole(phase), 'arrived', whole(arrived), '@' .. token, whole(number) .. ' ' .. whole(last_phase or phase) .. ' out')
  return 'withdrawn ' .. at
end
