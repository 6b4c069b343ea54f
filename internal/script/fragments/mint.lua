-- mint.lua: issues fences.
--
-- A fence is above all earlier ones and not below the server's time in µs, so that fences
-- still rise after the counter was lost.
--
-- requires request
-- requires fence_counter

local counter = KEYS[3]

local function store_counter(fence)
  if cluster then
    -- Each name has its own counter. After a day of rest the clock alone is enough.
    redis.call('SET', counter, whole(fence), 'EX', 86400)
  else
    -- mutants: counter-stays
    redis.call('SET', counter, whole(fence))
  end
end

-- Reserves up to n fences, and returns the first and their number. A counter that leads the clock by more
-- than a second gives one at a time, so that the clock can catch up.
local function mint(n)
  local fence = 0
  local last = redis.call('GET', counter)
  if last then
    fence = believed(counter, last, now)
  end
  -- mutants: fence-floor
  fence = math.max(fence + 1, now)
  if fence - now > 1000000 then
    n = 1
  end
  store_counter(fence + n - 1)
  -- mutants: minted
  return fence, n
end
