-- drop.lua: gives up a lock that nobody waits for, by its key alone. In a Cluster's slot
-- that is on its way to another node, a script whose keys are not all there is refused:
-- release.lua is, for every lock without a queue.
--
-- KEYS    [1] lock
-- ARGV    [1] flags as in prelude.lua  [2] token
-- Returns 'released NOW'  the lock was the token's, and is free
--         'kept NOW'      it is another's, or gone, or somebody waits: that is for
--                         release.lua
--         'error MESSAGE' the lock may still be the token's
--
-- Invariants: only the token's own lock is touched; a lock that is waited for is not.

-- include prelude.lua
-- include lock.lua

local function main()
  local value = read_lock()
  if not value or string.sub(value, 1, #mine) ~= mine or string.sub(value, -1) == '+' then
    on_master()
    return 'kept ' .. whole(now)
  end
  free_lock()
  return 'released ' .. whole(now)
end

-- include answer.lua
