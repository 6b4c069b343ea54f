-- channel.lua: messages to clients.
--
-- requires request

-- Returns how many connections hear this channel on this node. The count of PUBLISH would include
-- subscribers to patterns.
local function receivers(channel)
  return redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', channel)[2]
end

local function send(channel, text)
  return redis.call(cluster and 'SPUBLISH' or 'PUBLISH', channel, text)
end
