-- share_resize.lua: sets the number of permits of a semaphore for good, or leaves it to its users again.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds
-- ARGV    [1] flags  [2] any token  [3] kind  [4] limit, or 0
-- Returns 'resized NOW LIMIT USED'
-- Invariants: nobody loses a hold: if more is held than the new limit allows, nothing is granted until enough was given back.
-- requires prelude, queue, shares, incarnation, answer

local wanted = tonumber(ARGV[4])

local function main()
  local rest = quarantine()
  load(ARGV[3])
  if wanted > 0 then
    limit, fixed = wanted, '1'
    redis.call('HSET', KEYS[1], 'kind', kind, 'limit', whole(limit), 'used', whole(used), 'holds', whole(holds), 'next', whole(next_expiry), 'fixed', fixed)
    redis.call('PERSIST', KEYS[1])
    extend_keys(0)
  elseif fixed then
    limit, fixed = nil, false
    redis.call('HDEL', KEYS[1], 'fixed')
    redis.call('HSET', KEYS[1], 'limit', '0')
    sweep()
    if used > 0 then
      local last = redis.call('ZRANGE', expiries, '-1', '-1', 'WITHSCORES')[2]
      redis.call('PEXPIRE', KEYS[1], math.ceil((last - now) / 1000))
      redis.call('PEXPIRE', expiries, math.ceil((last - now) / 1000))
    end
  end
  local first = rest == 0 and first_waiter()
  if first and limit then
    pcall(serve)
  elseif first then
    stand_by(first, now) -- its client sets the limit
  end
  return 'resized ' .. at .. ' ' .. whole(limit or 0) .. ' ' .. whole(used)
end
