-- fence_counter.lua: which fence counters can be believed.
--
-- A counter leads the clock if reserved fences were not used, or the clock went back. If it leads by a day or
-- more, somebody has set it: a resource that saw a fence from it would refuse every later holder, for good.
local longest_lead = 86400000000

-- Returns what the counter under that key says, whose text is last, as a number. Raises an error if it
-- cannot be believed. time is the server's, in µs.
local function believed(key, last, time)
  -- Above 9e15 a Lua number no longer counts in ones.
  if not string.match(last, '^%d+$') or #last > 16 or tonumber(last) > 9e15 then
    error('BADFENCE the fence counter is not a number that fences can follow', 0)
  end
  -- mutants: counter-believed
  if tonumber(last) - time >= longest_lead then
    error('BADFENCE the fence counter ' .. key .. " leads the server's clock by more than a day: set that clock right if it is behind; if the counter was set by somebody, delete it, and fences follow the clock again", 0)
  end
  return tonumber(last)
end
