-- channel.lua: messages to clients.
-- requires request

-- Returns how many connections hear each of two channels on this node. PUBLISH would also count subscribers to patterns.
local function receivers(...)
  local reply = redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', ...)
  return reply[2], reply[4]
end

local function send(channel, text)
  return redis.call(cluster and 'SPUBLISH' or 'PUBLISH', channel, text)
end
