-- pass_on.lua: the short way of release.lua, which requires it first. In the usual case it hands a lock to the first waiter and queues the
-- caller's next waiter, if there is one. It leaves every other case to the rest of the script. Making the functions of the rest takes as
-- long as all commands of a hand-over, so this file has few of its own.
-- requires request, value

-- The lock's value before it was handed to a waiter that turned out not to listen. The rest of the script then serves the next.
local unheard

-- Gives the lock to that waiter, as serve of hand_over.lua does, and tells the waiter behind it when to look, unless that has promised to
-- look by then. joins says that the caller's next waiter is about to be queued. Returns how many subscribers received the grant.
local function pass_to(member, waiter, claim, channel, info, follower, by, behind, joins, fence)
  local publish = cluster and 'SPUBLISH' or 'PUBLISH'
  redis.call('ZREM', KEYS[2], member)
  -- mutants: pass-on-mark
  local mark = (follower or joins) and '+' or ''
  redis.call('SET', KEYS[1], lock_value('hf2:' .. waiter .. ':', fence, string.sub(at, 1, -4), '0', info) .. mark, 'PX', claim)
  -- Servers send a script's messages in reverse order, so the next holder, which is told last, hears first.
  -- mutants: pass-on-follower
  if follower then
    local due, promised = now + claim * 1000, tonumber(by) or 0
    -- If the time has passed, the waiter has looked already.
    -- mutants: pass-on-promise
    if promised * 1000 <= now or promised * 1000 > due then
      pcall(redis.call, publish, behind, 'hf2 standby ' .. follower .. ' ' .. at .. ' ' .. whole(due))
    end
  end
  -- mutants: pass-on-tell
  return redis.call(publish, channel, 'hf2 grant ' .. waiter .. ' ' .. at .. ' ' .. claim .. ' ' .. fence .. ' ' .. KEYS[1])
end

-- Makes a queue that has no waiters left expire with its last tombstone.
local function expire_queue()
  local last = redis.call('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES')[2]
  if last then
    redis.call('PEXPIRE', KEYS[2], math.max(0, math.ceil((-last - now) / 1000)))
  end
end

-- Returns the first two waiters if the caller's next one can be queued here: it comes last, behind no tombstones and no old waiters.
local function joining()
  -- mutants: join-late
  if not ARGV[6] or now >= tonumber(ARGV[5]) then return nil end
  local two = redis.call('ZRANGE', KEYS[2], '0', '1', 'WITHSCORES')
  -- mutants: join-head
  if not two[1] or tonumber(two[2]) <= now - 60000000 then return nil end
  local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
  -- mutants: join-order
  return tonumber(last[2]) < now and {two[1], two[3]} or nil
end

-- Enters the queue for the caller's next waiter.
local function join()
  redis.call('ZADD', KEYS[2], 'NX', at, ARGV[6])
  -- enqueue.lua says why it is so long.
  if redis.call('PTTL', KEYS[2]) < 60000 then
    redis.call('PEXPIRE', KEYS[2], 70000)
  end
end

-- Returns the next fence, as text; nil or false if only mint.lua can issue it, or tell what is wrong with the counter.
local function short_fence()
  -- mutants: short-fence
  local id = redis.pcall('XADD', KEYS[3], 'MAXLEN', '~', cluster and '0' or '1', '*', 'g', '')
  local ms, seq = string.match(id.err and '' or id, '^(%d+)-(%d?%d?%d)$')
  -- mutants: short-fence-believed
  return ms and ms * 1000 - now < 86400000000 and ms .. string.sub('00' .. seq, -3)
end

-- Returns the reply, or nil to leave the release to the rest of the script.
local function pass_on()
  local value, mine = redis.call('GET', KEYS[1]), 'hf2:' .. ARGV[2] .. ':'
  if not value or string.sub(value, 1, #mine) ~= mine or string.sub(value, -1) ~= '+' then return nil end
  local first = joining()
  -- A late copy of the request may find that waiter in the queue.
  -- mutants: join-first
  local joins = first and first[1] ~= ARGV[6] and first
  -- mutants: pass-on-order
  first = first or redis.call('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', '2')
  local waiter, claim, channel, info = string.match(first[1] or '', '^([^\n]*)\n(%d+)@?%d*\n([^\n]*)\n(.*)$')
  local follower, by, behind = string.match(first[2] or '', '^([^\n]*)\n%d+@?(%d*)\n([^\n]*)\n')
  if not waiter or first[2] and not follower then return nil end
  local heard = redis.call('PUBSUB', cluster and 'SHARDNUMSUB' or 'NUMSUB', channel, behind or channel, joins and ARGV[7] or channel)
  -- mutants: pass-on-dead
  if heard[2] == 0 or heard[4] == 0 then return nil end
  -- mutants: pass-on-fence
  local fence = short_fence()
  if not fence then return nil end
  local ok, told = pcall(pass_to, first[1], waiter, claim, channel, info, follower, by, behind, joins, fence)
  if not ok then
    redis.call('DEL', KEYS[1])
  elseif cluster and told == 0 then
    -- mutants: pass-on-unheard
    unheard = value
    return nil
  elseif joins and pcall(join) then
    return 'released ' .. at .. ' ' .. claim .. ' ' .. at .. ' ' .. redis.call('ZCOUNT', KEYS[2], '0', '+inf') .. ' ' .. heard[6]
  elseif not follower then
    pcall(expire_queue)
  end
  return 'released ' .. at
end

-- mutants: short-release
if (flags == '' or flags == 'c') and ARGV[4] == '0' then
  local ok, reply = pcall(pass_on)
  if ok and reply then return reply end
end
