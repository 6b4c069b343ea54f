-- ring.lua: publishes on a channel as the library's scripts do, and replies with how
-- many connections the server believes to hear it.
--
-- KEYS    [1] a key in the channel's slot
-- ARGV    [1] channel  [2] message  [3] 'c' in Cluster mode
-- Returns a number
local cluster = ARGV[3] == 'c'
local heard_by = redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', ARGV[1])[2]
redis.call(cluster and 'SPUBLISH' or 'PUBLISH', ARGV[1], ARGV[2])
return heard_by
