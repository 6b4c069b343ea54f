-- renew.lua: makes a lease last longer, and reserves fences for hand-overs inside
-- the process that holds it.
--
-- KEYS    [1] lock, and where fences are wanted [2] queue  [3] fence counter: in a
--         slot that is on the move, keys that do not exist make a script fail. In
--         Strict mode all three, and [4] incarnation mark
-- ARGV    [1] flags: 'n' one node of a quorum; and as in prelude.lua  [2] token  [3] TTL, ms  [4] fences wanted, or 0
--         [5] the fence that the grant has; of a plain mutex, where fences are wanted: [6] fences
--         wanted if nobody else's process waits  [7] channel on which the caller's waiters listen
-- Returns 'renewed NOW PTTL FENCE BLOCK'  the first of the fences and how many
--         'gone NOW'                      the lock is another's
--         'absent NOW'                    there is no lock
--         'quarantined NOW REST'          Strict mode: nothing is renewed for so many ms
--         'error MESSAGE'
--
-- Invariants: nothing shortens an expiry; a renewal creates nothing. PEXPIRE, unlike
-- SET, works when the server is out of memory.

-- include prelude.lua
-- include lock.lua
-- include mint.lua
-- include queue.lua
-- include incarnation.lua

local ttl, block, node = tonumber(ARGV[3]), tonumber(ARGV[4]), string.find(flags, 'n', 1, true)

-- Reserves what is wanted.
local function reserve()
  if ARGV[6] then
    local alone = true
    for _, member in ipairs(look_at('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', '0', '2') or {}) do
      local _, _, channel = waiter(member)
      alone = alone and channel == ARGV[7]
    end
    if alone then
      return mint(tonumber(ARGV[6]))
    end
  end
  return mint(block)
end

local function main()
  local rest, others = quarantine()
  if rest > 0 and (others or node) then
    -- The old master may have let the lease expire, and granted another; and one node of a
    -- quorum may have lost a later lock, on which others rely.
    return 'quarantined ' .. whole(now) .. ' ' .. rest
  end
  local value = read_lock()
  -- A late copy of the acquire could have brought back a lock that was deleted.
  local granted = mine .. ARGV[5] .. ':'
  -- mutants: renew-absent
  if not value then
    on_master()
    return 'absent ' .. whole(now)
  end
  if string.sub(value, 1, #granted) ~= granted then
    on_master()
    return 'gone ' .. whole(now)
  end
  local pttl = prolong(ttl)
  local fence, n = 0, 0
  if block > 0 then
    -- Without fences the lease is as good; it is only not passed on locally.
    local ok, f, reserved = pcall(reserve)
    if ok then
      fence, n = f, reserved
    end
  end
  return 'renewed ' .. whole(now) .. ' ' .. pttl .. ' ' .. whole(fence) .. ' ' .. n
end

-- include answer.lua
