-- hand_over.lua: gives a lock to the next in its queue. A fragment; needs prelude.lua,
-- lock.lua, mint.lua and queue.lua.

local function owned(owner, fence, chain, info, marked)
  return 'hf1:' .. owner .. ':' .. whole(fence) .. ':' .. string.sub(at, 1, -4) .. ':' .. chain .. ':' .. info .. (marked and '+' or '')
end

-- What names, at the end of a chain, the queue that the lock's holder serves: clients with another prefix
-- have another queue for the same exact key. Empty where the queue's key is the lock's with one word more.
local function queue_name()
  if string.match(KEYS[2], '^(.*):') == KEYS[1] then
    return ''
  end
  return '@' .. string.sub(redis.sha1hex(KEYS[2]), 1, 8)
end

-- Whether the lock's holder, of ours, serves another queue, or may: earlier versions do not say which. It
-- tells nobody in this one when it is done.
local function serves_others(value)
  return (string.match(value, '^hf1:[^:]*:%d+:%d+:%d+@%d+(@%x+):') or '') ~= queue_name()
end

-- The chain of a lock that is taken without a hand-over.
local function new_chain()
  return shared and '0@' .. string.sub(at, 1, -4) .. queue_name() or '0'
end

-- The chain of the lock's next holder, or nil when it is time for a gap: programs
-- that poll a shared key see it free only if nobody is handed it.
local function next_chain(value)
  if not shared then
    return '0'
  end
  local n, since = string.match(value or '', '^hf1:[^:]*:%d+:%d+:(%d+)@(%d+)[@:]')
  if not n then
    return new_chain()
  end
  if n + 1 > 8 or now / 1000 - since > 50 then
    return nil
  end
  return whole(n + 1) .. '@' .. since .. queue_name()
end

-- The gap: for so many ms after such a chain nobody of ours gets the lock, so that a program
-- that polls, or is told of the release, has time to. It stands in the queue as 'gap', with
-- the negated server time (µs) at which it ends.
local gap_length = 10

local function open_gap()
  pcall(function()
    redis.call('ZADD', KEYS[2], whole(-now - gap_length * 1000), 'gap')
    -- The queue may have been gone, with all who waited.
    if redis.call('PTTL', KEYS[2]) < gap_length then
      redis.call('PEXPIRE', KEYS[2], gap_length)
    end
  end)
end

-- How much of a gap is left, in ms. One that is further off is of before the clock went back.
local function gap()
  local due = shared and look_at('ZSCORE', KEYS[2], 'gap')
  local left = due and math.ceil((-due - now) / 1000) or 0
  return left > 0 and left <= gap_length and left or 0
end

-- Gives the lock, which is free or the caller's to give, to the first waiter that is
-- alive. Returns fence and block when that is self, a member of the queue that is
-- answered directly, for ttl ms. Nobody there: the lock is deleted.
-- Entries are removed before anything else, so that one that cannot be served is
-- not tried for ever; and nothing is announced before it is true.
local function serve(chain, self, ttl, block)
  while true do
    local first = waiters(2)
    local member, follower = first[1], first[2]
    if not member then
      free_lock()
      settle()
      return nil
    end
    redis.call('ZREM', KEYS[2], member)
    local owner, claim, channel, info = waiter(member)
    if owner and member == self then
      local fence, n = mint(block)
      write_lock(owner, owned(owner, fence, chain, info, follower), ttl)
      if follower then
        stand_by(follower, now + ttl * 1000)
      else
        settle()
      end
      return fence, n
    -- mutants: waiter-listens
    elseif owner and receivers(channel) > 0 then
      local fence = mint(1)
      write_lock(owner, owned(owner, fence, chain, info, follower), claim)
      -- mutants: tell-of-grant
      local heard = send(channel, 'hf1 ' .. (redisson and 'redisson ' or 'grant ') .. owner .. ' ' .. whole(now) .. ' ' .. claim .. ' ' .. whole(fence) .. ' ' .. KEYS[1])
      if not cluster or heard > 0 then
        if follower then
          stand_by(follower, now + claim * 1000)
        else
          pcall(settle)
        end
        return nil
      end
    else
      drop_dead(self)
    end
  end
end

-- serve, with the lock deleted when it fails: a lock that cannot be handed over is
-- free, and the waiters find it at their next check. Raises what serve raised.
local function hand_over(chain, self, ttl, block)
  local ok, fence, n = pcall(serve, chain, self, ttl, block)
  if not ok then
    free_lock()
    error(message(fence), 0)
  end
  return fence, n
end
