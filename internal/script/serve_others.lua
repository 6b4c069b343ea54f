-- serve_others.lua: what happens once a hold was given up. A fragment; needs shares.lua and
-- incarnation.lua.

-- Serves those who wait, or tells the first of them when to look.
local function serve_others()
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
