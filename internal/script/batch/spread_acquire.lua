-- spread_acquire.lua: acquires those of many locks of a Cluster's master that are free and that nobody waits for.
--
-- The locks are in several slots, so KEYS has only the first, which decides where the script goes. At each command the
-- server checks the slot of its keys. The first command for each lock names a key that does not exist, so the server
-- refuses it if the slot is elsewhere or on the move. Then nothing is written for that lock, and the reply lists it.
--
-- KEYS    [1] the first lock
-- ARGV    [1] flags as in request.lua  [2] not-after, server time in µs  [3] TTL, ms, and [4] info of all
--         locks, or '' if they differ; then of each lock its key, queue, fence counter and 'hf1:TOKEN:', and
--         TTL and info if they differ
-- Returns 'taken NOW REFUSED FENCE ...'  for each lock its fence, or 0 if it was not acquired. For REFUSED of those the
--             server refused a command, or gave no usable fence. acquire.lua tells why a lock was not acquired
--         'error MESSAGE', or an error: no lock was acquired
--
-- Invariants: it acquires what acquire.lua would grant at once, and nothing else; a grant is written
-- after its fence; nobody passes a waiter or a tombstone.

-- requires several_slots
-- requires request
-- requires short_fence
-- requires value
-- requires answer

local not_after, all_ttl, all_info = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local granted, try = string.sub(at, 1, -4), redis.pcall

-- Acquires a lock. Returns its fence, or nil if it did not, and whether the server refused a command.
local function take(lock, queue, counter, head, ttl, info)
  -- mutants: spread-free
  local there = try('EXISTS', lock, queue)
  if there ~= 0 then
    return nil, type(there) == 'table'
  end
  -- mutants: spread-fence
  local fence = short_fence(counter, at)
  if not fence or try('SET', lock, lock_value(head, fence, granted, '0', info), 'PX', ttl).err then
    return nil, true
  end
  return fence
end

local function main()
  local fences, refused = '', 0
  -- mutants: spread-late
  local late = now >= not_after
  for k = 5, #ARGV, all_ttl == '' and 6 or 4 do
    local fence, by_server
    if not late then
      local ttl, info = all_ttl, all_info
      if ttl == '' then
        ttl, info = ARGV[k + 4], ARGV[k + 5]
      end
      fence, by_server = take(ARGV[k], ARGV[k + 1], ARGV[k + 2], ARGV[k + 3], ttl, info)
    end
    fences, refused = fences .. ' ' .. (fence or 0), by_server and refused + 1 or refused
  end
  return 'taken ' .. at .. ' ' .. refused .. fences
end

return answer(main)
