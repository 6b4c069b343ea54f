-- basics.lua: what scripts begin with that take their keys in an order of their own. A
-- fragment, included by prelude.lua, too.
--
-- ARGV[1] flags: 'c' the server runs in Cluster mode; others as in prelude.lua.
local flags = ARGV[1]
local clock = redis.call('TIME')
-- The server's time, in µs, as text and as a number.
local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local now = tonumber(at)
local cluster = string.find(flags, 'c', 1, true)

-- Lua writes large numbers as 1.76e+15; and formatting takes longer than most commands.
local function whole(n)
  return n == now and at or string.format('%d', n)
end

-- include message.lua
