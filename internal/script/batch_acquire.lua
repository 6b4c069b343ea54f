-- batch_acquire.lua: takes those of many locks that are free, and for which nobody waits.
--
-- KEYS    the locks, then their queues, then the fence counter: of one lock, as for acquire.lua,
--         [1] lock  [2] queue  [3] fence counter
-- ARGV    [1] flags as in basics.lua  [2] not-after, server time in µs; of each 'hf1:TOKEN:';
--         TTL, ms, and info of all of them; or, where they differ, all TTLs, then all infos
-- Returns 'taken NOW FENCE I ...'  all but those of these numbers; the lock i has the fence
--             FENCE + i - 1. acquire.lua tells why the others were not, and answers a token that
--             has its lock already
--         'error MESSAGE'          none was taken
--
-- Invariants: what acquire.lua grants at once, and nothing else; a grant is written after its
-- fence; nobody passes a waiter or a tombstone.

-- include basics.lua
-- include mint.lua

local n = (#KEYS - 1) / 2
counter = KEYS[#KEYS]

-- Which of them may be taken, and how many those are. redis.call costs more than what it
-- does: all are looked at at once.
local function free()
  local which, count = {}, 0
  if now >= tonumber(ARGV[2]) then
    return which, count
  end
  local all = redis.call('EXISTS', unpack(KEYS, 1, 2 * n)) == 0
  for i = 1, n do
    if all or redis.call('EXISTS', KEYS[i], KEYS[n + i]) == 0 then
      which[i], count = true, count + 1
    end
  end
  return which, count
end

local function main()
  local which, count = free()
  local fence, minted = 0, 0
  if count > 0 then
    fence, minted = mint(n)
  end
  local granted, left = ':' .. string.sub(at, 1, -4) .. ':0:', ''
  local same, ttl, info = #ARGV == n + 4, ARGV[n + 3], ARGV[n + 4]
  for i = 1, n do
    local set = false
    if which[i] and i <= minted then
      if not same then
        ttl, info = ARGV[n + 2 + i], ARGV[2 * n + 2 + i]
      end
      -- A lock may be among them twice.
      set = redis.pcall('SET', KEYS[i], ARGV[2 + i] .. whole(fence + i - 1) .. granted .. info, 'NX', 'PX', ttl)
    end
    if not set or set.err then
      left = left .. ' ' .. i
    end
  end
  return 'taken ' .. at .. ' ' .. whole(fence) .. left
end

-- include answer.lua
