-- barrier_phase.lua: the phase of a barrier, and the caller's latest await. ARGV[3] is the number of the await.
-- requires prelude

local number = tonumber(ARGV[3])
local phase, arrived, tripped, broken
local last_number, last_phase, inside -- the caller's latest await; last_phase is nil before the first

local function load_phase()
  local f = redis.call('HMGET', KEYS[1], 'phase', 'arrived', 'tripped', 'broken', '@' .. token)
  phase, arrived, tripped, broken = tonumber(f[1] or 1), tonumber(f[2] or 0), tonumber(f[3] or 0), f[4] or 'died {}'
  local n, p, state = string.match(f[5] or '', '^(%d+) (%d+) (%a+)$')
  last_number, last_phase, inside = tonumber(n or 0), tonumber(p), state == 'in'
end
