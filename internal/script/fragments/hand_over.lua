-- hand_over.lua: gives a mutex to the next waiter in its queue.
-- requires prelude, lock, mint, queue, grant

-- Gives the lock, which is free or the caller's to give, to the first waiter that is alive. Returns fence and block if that is self, a
-- member of the queue that is answered directly, for ttl ms. If nobody waits, the lock is deleted. An entry is removed before anything
-- else, so that one that cannot be served is not tried forever; and a grant is announced only after the lock was set.
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
    local waiter_token, claim, channel, info = parse_waiter(member)
    local counts = member == self and {} or hearers(first)
    if waiter_token and member == self then
      local fence, n = mint(block)
      write_lock(waiter_token, new_value(waiter_token, fence, chain, info, follower), ttl)
      if follower then
        stand_by(follower, now + ttl * 1000)
      else
        settle()
      end
      return fence, n
    -- mutants: waiter-listens
    elseif waiter_token and counts[1] > 0 then
      local fence = mint(1)
      write_lock(waiter_token, new_value(waiter_token, fence, chain, info, follower), claim)
      -- mutants: tell-of-grant
      local heard = send(channel, 'hf2 ' .. (redisson and 'redisson ' or 'grant ') .. waiter_token .. ' ' .. at .. ' ' .. claim .. ' ' .. whole(fence) .. ' ' .. KEYS[1])
      if not cluster or heard > 0 then
        if follower then
          stand_by(follower, now + claim * 1000, counts[2])
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

-- Calls serve. If that fails, deletes the lock, which the waiters find free at their next check, and raises the error again.
local function hand_over(chain, self, ttl, block)
  local ok, fence, n = pcall(serve, chain, self, ttl, block)
  if not ok then
    free_lock()
    error(error_text(fence), 0)
  end
  return fence, n
end
