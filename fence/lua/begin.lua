-- begin.lua: opens a script of the user's. Follows guard.lua; end.lua closes it.
local function write()
