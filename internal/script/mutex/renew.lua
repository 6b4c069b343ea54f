-- renew.lua: renews a lease, and reserves fences for hand-overs within the process that holds it.
-- KEYS    [1] lock; if fences are wanted, and in Strict mode, also [2] queue  [3] fence counter: in a slot that moves, a script fails if
--         one of its keys does not exist
-- ARGV    [1] flags; 'n' for a node of a quorum  [2] token  [3] TTL, ms  [4] fences wanted, or 0  [5] the fence of the grant
--         and perhaps [6] fences wanted if no other process waits  [7] the channel of the caller's waiters
-- Returns 'renewed NOW PTTL FENCE BLOCK'  the first fence and how many there are
--         'gone NOW', 'absent NOW'        the lock is another's, or does not exist
--         'quarantined NOW REST'          Strict mode: nothing is renewed for so many ms
-- Invariants: nothing shortens an expiry; a renewal creates nothing. PEXPIRE, unlike SET, works when the server is out of memory.
-- requires prelude, lock, mint, waiters, grant, incarnation, answer

local ttl, block, node = tonumber(ARGV[3]), tonumber(ARGV[4]), string.find(flags, 'n', 1, true)

-- Reserves the fences that are wanted.
local function reserve(block)
  if ARGV[6] then
    local alone = true
    for _, member in ipairs(look_at('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', '2') or {}) do
      local _, _, channel = parse_waiter(member)
      alone = alone and channel == ARGV[7]
    end
    if alone then return mint(tonumber(ARGV[6])) end
  end
  return mint(block)
end

local function main()
  local rest, others = quarantine()
  if rest > 0 and (others or node) then
    -- The old master may have let the lease expire and granted another; a quorum's node may have lost a later lock of others.
    return quarantined(rest)
  end
  local value = read_lock()
  -- With the fence, because a late copy of the acquire may have brought back a lock that was deleted. A lock that the server's own SET gave
  -- the token has none yet: such a SET is sent once.
  local granted, fresh = mine .. ARGV[5] .. ':', mine .. '0:'
  -- mutants: renew-absent
  if not value then return refuse('absent') end
  -- mutants: renew-own
  if string.sub(value, 1, #fresh) == fresh then
    -- If the server is out of memory, a later renewal does it.
    -- mutants: renew-fresh
    pcall(redis.call, 'SET', KEYS[1], granted .. string.sub(value, #fresh + 1), 'KEEPTTL')
  elseif string.sub(value, 1, #granted) ~= granted then
    return refuse('gone')
  end
  return renewed(prolong(ttl), block, reserve)
end
