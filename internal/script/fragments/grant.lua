-- grant.lua: the value of a lock that is granted now.
-- requires request, value

-- marked says that somebody waits.
local function new_value(holder, fence, chain, info, marked)
  local value = lock_value('hf2:' .. holder .. ':', whole(fence), string.sub(at, 1, -4), chain, info)
  return marked and value .. '+' or value
end
