-- several_slots.lua: how a script begins that writes to several slots of a Cluster.
--
-- Valkey 9.0.0 and 9.0.1 put such writes into the wrong slots when they load them from an append-only file. The locks would
-- be lost, and the server might fail to start (valkey-io/valkey#2995).

-- mutants: spread-version
if redis.VALKEY_VERSION_NUM == 0x90000 or redis.VALKEY_VERSION_NUM == 0x90001 then
  return redis.error_reply('ERR this version of Valkey misplaces what scripts write in several slots')
end
