-- init.lua: admits a server to Strict mode.
-- KEYS    [1] incarnation mark
-- ARGV    [1] flags of incarnation.lua; 'f' ends a quarantine, 'l' looks  [2] any text
-- Returns 'ready NOW'             locks are granted
--         'quarantined NOW REST'  nothing is granted for so many ms
--         'new NOW', 'known NOW'  for 'l': whether the server has a mark; nothing is changed
-- Invariants: only a server without a mark, or any with 'f', is admitted at once.
-- requires incarnation, answer

local function main()
  local new = redis.call('EXISTS', KEYS[1]) == 0
  if string.find(flags, 'l', 1, true) then return (new and 'new ' or 'known ') .. at end
  if new or string.find(flags, 'f', 1, true) then
    quarantine() -- refuses a server that cannot be used
    local id, _, longest = read_mark()
    write_mark(id, now, longest)
  end
  local rest = quarantine()
  if rest > 0 then return quarantined(rest) end
  return 'ready ' .. at
end
