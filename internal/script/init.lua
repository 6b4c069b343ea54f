-- init.lua: admits a server to Strict mode.
--
-- KEYS    [1] incarnation mark
-- ARGV    [1] flags as in prelude.lua and incarnation.lua; 'f' ends a quarantine
--         [2] any text
-- Returns 'ready NOW'             locks are granted
--         'quarantined NOW REST'  not for so many ms yet
--         'error MESSAGE'
--
-- Only a server without a mark, or with 'f', is admitted at once.

-- include prelude.lua
-- include incarnation.lua

local function main()
  if redis.call('EXISTS', KEYS[1]) == 0 or string.find(flags, 'f', 1, true) then
    quarantine() -- refuses a server that cannot be used
    local id, _, longest = read_mark()
    write_mark(id, now, longest)
  end
  local rest = quarantine()
  if rest > 0 then
    return 'quarantined ' .. whole(now) .. ' ' .. rest
  end
  return 'ready ' .. whole(now)
end

-- include answer.lua
