-- compare_and_delete.lua: releases a lock taken with SET NX PX.
--
-- KEYS    [1] lock
-- ARGV    [1] token
-- Returns 1 if the lock had that token and is deleted, 0 if it did not
if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end
