-- queue_up.lua: the short way of acquire.lua, which requires it first. It enters the queue of a held lock in the usual case, and leaves
-- every other case to the rest of the script, as pass_on.lua does and for the same reason.
-- requires request

-- Returns the reply, or nil to leave the acquire to the rest of the script: then it has written nothing but what the rest would write, too.
local function queue_up()
  local value, not_after = redis.call('GET', KEYS[1]), tonumber(ARGV[4])
  -- If the chain is not 0, the lock may have another queue.
  local holder = value and string.match(value, '^hf2:([^:]*):%d+:%d+:0:')
  -- mutants: queue-up-held
  if not holder or holder == ARGV[2] or not_after > 0 and now >= not_after then return nil end
  local first, channel = redis.call('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES'), ''
  if first[1] then
    channel = string.match(first[1], '^[^\n]*\n%d+@?%d*\n([^\n]*)\n')
    -- If the first entry is a waiter that came within a minute, there are no tombstones, and no old waiters.
    -- mutants: queue-up-head
    if not channel or tonumber(first[2]) <= now - 60000000 then return nil end
    -- mutants: queue-up-order
    if tonumber(redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2]) >= now then return nil end
  end
  local heard = redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', ARGV[8], channel)
  -- mutants: queue-up-dead
  if first[1] and heard[4] == 0 then return nil end
  local pttl = redis.call('PTTL', KEYS[1])
  if redis.call('ZADD', KEYS[2], 'NX', at, ARGV[2] .. '\n' .. ARGV[7] .. '\n' .. ARGV[8] .. '\n' .. ARGV[6]) == 0 then
    return nil
  end
  -- enqueue.lua says why it is so long.
  if redis.call('PTTL', KEYS[2]) < 60000 then
    redis.call('PEXPIRE', KEYS[2], 70000)
  end
  -- mutants: queue-up-mark
  if string.sub(value, -1) ~= '+' then
    redis.call('APPEND', KEYS[1], '+')
  end
  local rank = first[1] and redis.call('ZCOUNT', KEYS[2], '0', at) or 1
  return 'queued ' .. at .. ' ' .. pttl .. ' ' .. at .. ' ' .. rank .. ' ' .. heard[2] .. ' ours'
end

-- mutants: short-acquire
if (flags == 'w' or flags == 'wc') and ARGV[9] == '' then
  local ok, reply = pcall(queue_up)
  if ok and reply then return reply end
end
