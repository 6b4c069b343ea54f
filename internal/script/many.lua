-- many.lua: takes those of many locks that are free. A fragment; needs basics.lua, and n, how many they
-- are. KEYS begins with the locks, then their queues; ARGV is that of batch_acquire.lua.

-- Which of them may be taken, and how many those are. redis.call costs more than what it
-- does: all are looked at at once.
local function free()
  local which, count = {}, 0
  -- mutants: batch-late
  if now >= tonumber(ARGV[2]) then
    return which, count
  end
  -- mutants: batch-free
  local all = redis.call('EXISTS', unpack(KEYS, 1, 2 * n)) == 0
  for i = 1, n do
    -- mutants: batch-nobody-waits
    if all or redis.call('EXISTS', KEYS[i], KEYS[n + i]) == 0 then
      which[i], count = true, count + 1
    end
  end
  return which, count
end

-- Takes those, the first so many of all, with fences that follow each other, and returns the reply.
local function take(which, fence, minted)
  local granted, left = ':' .. string.sub(at, 1, -4) .. ':0:', ''
  local same, ttl, info = #ARGV == n + 4, ARGV[n + 3], ARGV[n + 4]
  for i = 1, n do
    local set = false
    if which[i] and i <= minted then
      if not same then
        ttl, info = ARGV[n + 2 + i], ARGV[2 * n + 2 + i]
      end
      -- A lock may be among them twice.
      -- mutants: batch-set
      set = redis.pcall('SET', KEYS[i], ARGV[2 + i] .. whole(fence + i - 1) .. granted .. info, 'NX', 'PX', ttl)
    end
    if not set or set.err then
      left = left .. ' ' .. i
    end
  end
  return 'taken ' .. at .. ' ' .. whole(fence) .. left
end
