-- publish.lua: publishes on a channel as the library's scripts do.
--
-- KEYS    [1] a key in the channel's slot
-- ARGV    [1] channel  [2] message  [3] command that publishes  [4] subcommand of PUBSUB that counts subscribers
-- Returns how many connections the server believes to be subscribed
local subscribers = redis.call('PUBSUB', ARGV[4], ARGV[1])[2]
redis.call(ARGV[3], ARGV[1], ARGV[2])
return subscribers
