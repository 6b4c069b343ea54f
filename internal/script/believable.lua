-- believable.lua: which fence counters are believed. A fragment; needs basics.lua.
--
-- A counter leads the clock where fences were reserved in vain, or the clock went back. One that leads by
-- more than a day was set by somebody: a fence that follows it would shut out everybody after it, for good, from what
-- has seen it. mint.lua and node.lua look at it before it becomes a fence.
local longest_lead = 86400000000

-- What the counter under that key says, as a number.
local function believed(key, last)
  -- Above 9e15 a Lua number no longer counts by ones.
  if not string.match(last, '^%d+$') or #last > 16 or tonumber(last) > 9e15 then
    error('BADFENCE the fence counter is not a number that fences can follow', 0)
  end
  -- mutants: counter-believed
  if tonumber(last) - now >= longest_lead then
    error('BADFENCE the fence counter ' .. key .. " leads the server's clock by more than a day: set that clock right if it is behind; if the counter was set by somebody, delete it, and fences follow the clock again", 0)
  end
  return tonumber(last)
end
