-- mint.lua: issues fences. A fence is above all earlier ones and not below the server's time in µs, rounded down to a ms.
-- requires request, fence_counter

local counter = KEYS[3]

-- Reserves up to n fences, and returns the first and their number. A counter that leads the clock by more than a second gives one
-- at a time, so that the clock can catch up.
local function mint(n)
  local fence = next_fence(counter, now)
  if fence - now > 1000000 then
    n = 1
  end
  if n > 1 then
    raise_to(counter, fence + n - 1)
  end
  -- mutants: minted
  return fence, n
end
