-- raise.lua: only raises the mark. Follows guard.lua.
--
-- KEYS    only the guard's
-- ARGV    only the guard's
-- Returns 'raised'
--         the guard's errors

return 'raised'
