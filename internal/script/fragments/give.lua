-- give.lua: passes on a mutex whose hold has ended.
-- requires prelude, lock, queue, chain, hand_over, incarnation

-- Returns the chain of the next holder after the one with that value, or nil if it is time for a gap.
local function next_chain(value)
  if not shared then return '0' end
  local n, since = string.match(value or '', '^hf2:[^:]*:%d+:%d+:(%d+)@(%d+)[@:]')
  if not n then return new_chain() end
  if n + 1 > 8 or now / 1000 - since > 50 then return nil end
  return whole(n + 1) .. '@' .. since .. queue_name()
end

-- Deletes the lock, and tells the first waiter to look after so many ms. Returns the waiter, or nil if nobody waits.
local function free_and_notify(ms)
  free_lock()
  local first = first_waiter()
  if first then
    stand_by(first, now + ms * 1000)
  end
  return first
end

-- Hands the lock, which has that value, to the first waiter. Deletes it if nobody waits, or nothing may be granted yet.
local function give(value)
  local chain, rest = next_chain(value), quarantine()
  if rest > 0 then
    free_and_notify(rest)
  elseif chain then
    hand_over(chain)
  elseif free_and_notify(gap_length) then
    -- The waiter lets other programs pass, and so does whoever comes before it.
    pcall(redis.call, 'ZADD', KEYS[2], whole(-now - gap_length * 1000), 'gap')
  end
end
