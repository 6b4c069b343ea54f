-- mint.lua: issues fences. A fragment; needs basics.lua.
--
-- mint(n) reserves n fences and returns the first and how many they are. A fence is
-- above all earlier ones, and at least the server's time in µs, so that fences still
-- rise after the counter is lost. A counter that leads the clock by more than a
-- second is drawn from one at a time, so that the clock can catch up.

-- include believable.lua

local counter = KEYS[3]

local function store_counter(fence)
  if cluster then
    -- One counter a name; after a day of rest the clock alone is enough.
    redis.call('SET', counter, whole(fence), 'EX', 86400)
  else
    -- mutants: counter-stays
    redis.call('SET', counter, whole(fence))
  end
end

local function mint(n)
  local fence = 0
  local last = redis.call('GET', counter)
  if last then
    fence = believed(counter, last)
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
