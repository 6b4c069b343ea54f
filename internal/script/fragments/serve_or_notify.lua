-- serve_or_notify.lua: what follows the end of a hold.
-- requires shares, queue, incarnation

-- Serves the waiters, or tells the first of them when to look.
local function serve_or_notify()
  local known, rest = pcall(quarantine)
  local first = first_waiter()
  if not first then
    settle()
  elseif not known or not limit then
    stand_by(first, now)
  elseif rest > 0 then
    stand_by(first, now + rest * 1000)
  else
    serve()
  end
end
