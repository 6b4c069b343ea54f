-- short_fence.lua: issues a fence where a script takes a short way, for which the functions of mint.lua take too long to make.

-- Returns the next fence of that counter, as text. It returns nil, or false, if only fence_counter.lua can issue it, or tell what
-- is wrong with the counter. at is the server's time in µs.
local function short_fence(key, at)
  -- mutants: short-fence
  local id = redis.pcall('XADD', key, 'MAXLEN', '~', string.find(ARGV[1], 'c', 1, true) and '0' or '1', '*', 'g', '')
  local ms, seq = string.match(id.err and '' or id, '^(%d+)-(%d?%d?%d)$')
  -- mutants: short-fence-believed
  return ms and ms * 1000 - at < 86400000000 and ms .. string.sub('00' .. seq, -3)
end
