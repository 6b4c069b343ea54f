-- raise.lua: raises a mark, and does nothing else. Follows guard.lua.
--
-- KEYS    none but the guard's
-- ARGV    none but the guard's
-- Returns 'raised'
--         the guard's errors

return 'raised'
