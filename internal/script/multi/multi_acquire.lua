-- multi_acquire.lua: acquires several locks at once, if each is free and nobody waits for it; otherwise none.
-- KEYS    [1] lock  [2] queue  [3] fence counter of the first, and so on for each
-- ARGV    [1] flags  [2] token of the first lock  [3] TTL, ms  [4] not-after, server time in µs  [5] info, then the tokens of the others
-- Returns 'granted NOW PTTL FENCE...'      a fence for each lock; PTTL of the one that expires first
--         'held NOW I PTTL WAITERS VALUE'  the Ith lock is another's
--         'queued NOW'                     somebody waits for a free lock, or a token has a tombstone: acquire.lua has to acquire each
--         'late NOW', 'quarantined NOW REST'  as acquire.lua
-- Invariants: all or none; and those of acquire.lua.
-- requires prelude, mint, grant, chain, incarnation, answer

local ttl, not_after, info = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local tokens = { token, unpack(ARGV, 6) }

-- Returns the fences of the locks that the caller has, all if this is a repetition, and how many are free; or nils, and a refusal.
local function read_all()
  local fences, free = {}, 0
  for i, lock_token in ipairs(tokens) do
    local lock, queue = KEYS[3 * i - 2], KEYS[3 * i - 1]
    local value = redis.call('GET', lock)
    local own = 'hf2:' .. lock_token .. ':'
    if value and string.sub(value, 1, #own) == own then
      fences[#fences + 1] = string.match(value, '^%d+', #own + 1)
    elseif value then
      local waiters = redis.call('ZCOUNT', queue, 0, '+inf')
      return nil, nil, 'held', i .. ' ' .. redis.call('PTTL', lock) .. ' ' .. waiters .. ' ' .. value
    elseif redis.call('ZCOUNT', queue, 0, '+inf') > 0 or redis.call('ZSCORE', queue, 'x:' .. lock_token) then
      return nil, nil, 'queued'
    else
      free = free + 1
    end
  end
  return fences, free
end

local function granted(pttl, fences)
  return 'granted ' .. at .. ' ' .. whole(pttl) .. ' ' .. table.concat(fences, ' ')
end

-- Makes locks that an earlier sending has acquired last for at least ttl ms.
local function prolong_all(fences)
  local least = 9e15
  for i in ipairs(tokens) do
    local pttl = math.max(redis.call('PTTL', KEYS[3 * i - 2]), ttl)
    redis.call('PEXPIRE', KEYS[3 * i - 2], pttl)
    least = math.min(least, pttl)
  end
  return granted(least, fences)
end

local function take()
  local fences = {}
  for i, lock_token in ipairs(tokens) do
    local fence = mint(1)
    fences[i] = whole(fence)
    redis.call('SET', KEYS[3 * i - 2], new_value(lock_token, fence, new_chain(), info, false), 'PX', ttl)
  end
  return granted(ttl, fences)
end

local function main()
  local rest = quarantine()
  local fences, free, word, fields = read_all()
  if rest > 0 then return quarantined(rest) end
  if word then return refuse(word, fields) end
  if free == 0 then return prolong_all(fences) end
  -- Some have expired since an earlier sending.
  if #fences > 0 then return refuse('queued') end
  if now >= not_after then return refuse('late') end
  local ok, taken = pcall(take)
  if not ok then
    for i in ipairs(tokens) do
      redis.call('DEL', KEYS[3 * i - 2])
    end
    error(error_text(taken), 0)
  end
  return taken
end
