-- batch_acquire_many.lua: acquires those of n locks that are free. KEYS begins with the locks, followed by
-- their queues; ARGV is that of batch_acquire.lua.
--
-- requires request
-- requires value

-- Returns which of the locks may be taken, and their number. redis.call costs more than
-- most commands do, so one call looks at all of them first.
local function find_free(n)
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

-- Takes the locks that which names, and returns the reply. Lock i gets the fence fence + i - 1, and
-- is taken only if i is at most minted, the number of fences.
local function take_free(n, which, fence, minted)
  local granted, left = string.sub(at, 1, -4), ''
  local same, ttl, info = #ARGV == n + 4, ARGV[n + 3], ARGV[n + 4]
  local try, format = redis.pcall, string.format
  for i = 1, n do
    local set = false
    if which[i] and i <= minted then
      if not same then
        ttl, info = ARGV[n + 2 + i], ARGV[2 * n + 2 + i]
      end
      local value = lock_value(ARGV[2 + i], format('%d', fence + i - 1), granted, '0', info)
      -- NX, because a batch may name a lock twice.
      -- mutants: batch-set
      set = try('SET', KEYS[i], value, 'NX', 'PX', ttl)
    end
    if not set or set.err then
      left = left .. ' ' .. i
    end
  end
  return 'taken ' .. at .. ' ' .. whole(fence) .. left
end
