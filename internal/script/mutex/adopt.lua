-- adopt.lua: takes over a lock that its holder has detached, for whoever has the ticket.
-- KEYS    [1] lock  [2] queue  [3] fence counter
-- ARGV    [1] flags  [2] token, new for this request  [3] TTL, ms  [4] not-after, server time in µs, 0 for none  [5] info
--         [6] the ticket's token  [7] the ticket's fence: that in the lock's value, unless it has none yet
--         [8] tombstone: server time in µs until which an acquire of the ticket's token may still arrive, 0 if none can
-- Returns 'adopted NOW PTTL FENCE'  the lock is the token's, with a new fence
--         'gone NOW'                another has the lock: it was adopted already, or the ticket had expired; or the token has a tombstone
--         'absent NOW', 'late NOW'  there is no lock; not-after has come
--         'quarantined NOW REST'    Strict mode: nothing is granted for so many ms
-- Invariants: at most one token adopts what a ticket stands for; a lock that is not the ticket's stays as it is; the fence is written
-- before the lock; nothing shortens an expiry; waiters keep their mark, so that the adopter's release serves them. If the request is
-- sent twice, the second run replies with the first one's fence and its own times.
-- requires prelude, lock, mint, grant, chain, incarnation, tombstone, answer

local ttl, not_after, info = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local detached, until_time = ARGV[6], tonumber(ARGV[8])
local ticket, fresh = 'hf2:' .. detached .. ':' .. ARGV[7] .. ':', 'hf2:' .. detached .. ':0:'

local function adopted(pttl, fence)
  return 'adopted ' .. at .. ' ' .. pttl .. ' ' .. whole(fence)
end

-- The chain goes on: programs that poll have not seen the key free.
local function kept_chain(value)
  local chain = shared and string.match(value, '^hf2:[^:]*:%d+:%d+:(%d+@%d+)[@:]')
  return chain and chain .. queue_name() or new_chain()
end

local function main()
  -- A server that lost data may have the lock as it was before an adoption, in which somebody believes still.
  local rest = quarantine()
  -- mutants: adopt-quarantined
  if rest > 0 then return quarantined(rest) end
  local value = read_lock()
  -- mutants: adopt-own
  if value and string.sub(value, 1, #mine) == mine then
    return adopted(prolong(ttl), tonumber(string.match(value, '^%d+', #mine + 1)))
  end
  -- mutants: adopt-given-up
  if redis.call('ZSCORE', KEYS[2], 'x:' .. token) then return refuse('gone') end
  -- A tombstone ends at not-after, so what arrives just then is late.
  -- mutants: adopt-late
  if not_after > 0 and now >= not_after then return refuse('late') end
  if not value then return refuse('absent') end
  -- The fence, too: a late copy of the acquire could have brought back a lock that was deleted.
  -- mutants: adopt-compare
  if string.sub(value, 1, #ticket) ~= ticket and string.sub(value, 1, #fresh) ~= fresh then
    return refuse('gone')
  end
  -- mutants: adopt-expiry
  local pttl = math.max(redis.call('PTTL', KEYS[1]), ttl)
  -- mutants: adopt-fence
  local fence = mint(1)
  -- Before the lock: if this fails, the ticket is as good as before. A token that has its lock does not mind a tombstone.
  -- mutants: adopt-tombstone
  remember('x:' .. detached, until_time)
  -- mutants: adopt-mark
  local marked = string.sub(value, -1) == '+'
  -- mutants: adopt-swap
  write_lock(token, new_value(token, fence, kept_chain(value), info, marked), pttl)
  return adopted(pttl, fence)
end
