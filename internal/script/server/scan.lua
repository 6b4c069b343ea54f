-- scan.lua: tells which keys of a server may be those of locks, some at a time. Changes nothing.
-- KEYS    [1] any key of the server
-- ARGV    [1] flags  [2] any token  [3] 0, or the CURSOR of the reply before  [4] about how many keys to look at
--         [5] a pattern that the keys match, as SCAN takes it  [6...] prefixes: keys with one of them are returned
-- Returns 'keys NOW CURSOR', then for each key a line feed and the key. With CURSOR 0 these were the last; otherwise ask again, even if the
--             reply has none
-- Invariants: a key that exists from the first call to the last is told at least once, if it has the form of a lock's key or queue.
-- requires request, answer

-- Ends of keys that stand for locks, besides the brace behind a name.
local companions = { q = true, rw = true, sem = true, own = true, bar = true, redisson = true }

local function is_wanted(key)
  if string.sub(key, -1) ~= '}' and not companions[string.match(key, ':(%a+)$')] or string.find(key, '%c') then
    return false
  end
  for i = 6, #ARGV do
    if string.sub(key, 1, #ARGV[i]) == ARGV[i] then return true end
  end
  return false
end

local function main()
  local page = redis.call('SCAN', ARGV[3], 'MATCH', ARGV[5], 'COUNT', ARGV[4])
  local text, lines = '', {}
  for _, key in ipairs(page[2]) do
    if is_wanted(key) then
      lines[#lines + 1] = '\n' .. key
    end
    -- Some servers tell all their keys at once, and join few strings.
    if #lines == 1000 then text, lines = text .. table.concat(lines), {} end
  end
  return 'keys ' .. at .. ' ' .. page[1] .. text .. table.concat(lines)
end
