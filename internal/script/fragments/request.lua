-- request.lua: the flags of the request and the server's time.

local flags = ARGV[1]
local cluster = string.find(flags, 'c', 1, true)

-- The server's time in µs, as text and as a number. A script reads it once.
local clock = redis.call('TIME')
local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
local now = tonumber(at)

-- Formats a whole number: tostring would write a large one as 1.76e+15. The time, the most frequent, is formatted already.
local function whole(n)
  return n == now and at or string.format('%d', n)
end
