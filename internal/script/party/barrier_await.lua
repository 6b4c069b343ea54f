-- barrier_await.lua: lets a party arrive at a barrier, or look whether it may go on.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds
-- ARGV    [1] flags  [2] the party's token  [3] number of the await, from 1; later awaits of a party have higher numbers
--         [4] phase at which it arrives; 0 for that of its previous await, or of its joining
--         [5] parties  [6] the latest phase that the party knows to have tripped, or 0
-- Returns 'waiting NOW PTTL PHASE ARRIVED'  it has arrived; PTTL is what is left until some party may have died
--         'tripped NOW PHASE'               all parties have arrived at that phase
--         'broken NOW PHASE PRESENT left|died INFO'  a party ended before it had arrived at that phase, or before all others had; INFO is
--                                           of the last that did so
--         'gone NOW', 'absent NOW'          the token is no party's; there are others, or there are none
--         'stale NOW'                       the await was withdrawn, or the party is at a later one
-- Invariants: a party counts once for each phase, however often this is sent; a phase trips when all parties that there can be have
-- arrived and are alive; nobody arrives at a phase before it knows the outcome of the one before. A phase that a party knows to be
-- over stays over, even if the server has lost that.
-- requires prelude, queue, parties, shares, serve_or_notify, barrier_phase, answer

local function main()
  local hold = load('bar', tonumber(ARGV[5]))
  if not hold then return refuse(used == 0 and 'absent' or 'gone') end
  load_phase()
  -- The waiter for a place that is free now may be dead, too.
  if used < limit then
    pcall(serve_or_notify)
  end
  local target = tonumber(ARGV[4])
  if target == 0 then target = last_phase or phase end
  if number < last_number or number == last_number and not inside then return refuse('stale') end
  local known = tonumber(ARGV[6])
  if target > phase or known >= phase then
    -- A failover has lost what this party was told.
    insist()
    phase, arrived, tripped = math.max(target, known + 1), 0, math.max(tripped, known)
    redis.call('HSET', KEYS[1], 'phase', whole(phase), 'arrived', '0', 'tripped', whole(tripped))
    tell(kind)
  end
  if target == phase then
    insist()
    -- mutants: arrive-once
    if last_phase ~= target or not inside then
      arrived = arrived + 1
    end
    -- mutants: all-arrived
    if arrived < limit then
      redis.call('HSET', KEYS[1], 'phase', whole(phase), 'arrived', whole(arrived), '@' .. token, whole(number) .. ' ' .. whole(target) .. ' in')
      return 'waiting ' .. at .. ' ' .. whole(math.max(math.ceil((next_expiry - now) / 1000), 0)) .. ' ' .. whole(target) .. ' ' .. whole(arrived)
    end
    -- mutants: next-phase
    redis.call('HSET', KEYS[1], 'phase', whole(phase + 1), 'arrived', '0', 'tripped', whole(target), '@' .. token, whole(number) .. ' ' .. whole(target) .. ' in')
    tell(kind)
    return 'tripped ' .. at .. ' ' .. whole(target)
  end
  on_master()
  -- No later phase can have tripped, since this party has not arrived there.
  if target == tripped then return 'tripped ' .. at .. ' ' .. whole(target) end
  return 'broken ' .. at .. ' ' .. whole(target) .. ' ' .. whole(phase) .. ' ' .. broken
end
