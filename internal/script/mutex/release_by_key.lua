-- release_by_key.lua: releases a lock that nobody waits for, by its key alone. In a Cluster's slot that moves, a script is refused unless
-- all its keys exist on the node, so release.lua is refused for every lock without a queue.
-- KEYS    [1] lock
-- ARGV    [1] flags  [2] token
-- Returns 'released NOW'  the lock was the token's, and is free
--         'kept NOW'      it is another's, or does not exist, or somebody waits: release.lua has to decide
-- requires prelude, lock, answer

local function main()
  local value = read_lock()
  if not is_mine(value) or string.sub(value, -1) == '+' then return refuse('kept') end
  free_lock()
  return 'released ' .. at
end
