-- serve_or_notify.lua: what follows the end of a hold.
-- requires shares, queue, incarnation

-- Serves the waiters, or tells the first of them when to look.
local function serve_or_notify()
  local known, rest = pcall(quarantine)
  local first = first_waiter()
  if not first then
    settle()
  elseif known and limit and rest == 0 then
    serve()
  else
    stand_by(first, now + (known and limit and rest or 0) * 1000)
  end
end
