-- begin.lua: opens a function around the user's script. Follows guard.lua; end.lua closes it.
local function write()
