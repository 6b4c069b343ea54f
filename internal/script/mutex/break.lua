-- break.lua: takes a lock from the holder with that grant id and hands it over. It is for operators: the holder may still be at work.
-- KEYS    [1] lock  [2] queue  [3] fence counter, outside Cluster mode [4] journal
-- ARGV    [1] flags  [2] id of the request  [3] GRANT, the id of the grant  [4] not-after, server time in µs
--         [5] the kind of the lock  [6] a note  [7] the channel of the journal
-- Returns 'broken NOW RAISED', a line feed and 'PTTL WEIGHT VALUE': RAISED is a fence above all of the broken holder's and below the next
--             holder's; VALUE is the lock's value before, with GRANT in place of its token; WEIGHT is 0
--         'changed NOW PTTL WAITERS VALUE'  the lock's holder has another grant id, or none; WAITERS is 0
--         'free NOW', 'late NOW'            nobody has the lock; not-after has come: nothing was done
-- Invariants: only a grant with that id is broken; sent twice, the second run gives the first one's reply; the holder is told before
-- the next one is granted the lock; it works when the server is out of memory.
-- requires prelude, lock, give, breaking, answer

local function main()
  -- mutants: break-once
  local reply = replied_before()
  if reply then return refuse('broken', reply) end
  if now >= not_after then return refuse('late') end
  local value = read_lock()
  if not value then return refuse('free') end
  local pttl = redis.call('PTTL', KEYS[1])
  local holder_token, fence = string.match(value, '^hf2:([^:]*):(%d+):')
  -- mutants: break-compare
  if not is_meant(holder_token) then return refuse('changed', pttl .. ' 0 ' .. value) end
  prepare(fence, KEYS[4])
  reply = record_break(holder_token, fence, pttl, '0 hf2:' .. broken_grant .. string.sub(value, #'hf2:' + #holder_token + 1), KEYS[4])
  if not pcall(give, value) and read_lock(look_at) == value then
    -- It failed before it changed anything.
    free_lock()
  end
  return reply
end
