-- once_begin.lua: tells the holder of a job's lock whether to run the job, and counts the try.
-- KEYS    [1] the job's lock  [2] its record, once_record.lua
-- ARGV    [1] flags  [2] token  [3] window, ms; 0 is forever  [4] for how many ms to keep the record
--         [5] the lease's fence  [6] tries allowed; 0 for any number
-- Returns 'begun NOW TRY'     the job is to be run, for the TRYth time in this window
--         'done NOW COMPLETED FENCE TRY counts INFO\nRESULT'  it was completed already
--         'spent NOW TRIES'   as many tries have failed as are allowed
--         'used NOW'          a run under this lease was completed, in a window that is over
--         'gone NOW', 'absent NOW'  the lock is another's, or nobody's
-- Invariants: only a holder begins; a completed run that counts is not begun again; a lease completes one run; a copy counts no try.
-- requires prelude, once_record, answer

local window, keep, fence, most = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])

local function main()
  local value = redis.call('GET', KEYS[1])
  if not is_mine(value) then return refuse(value and 'gone' or 'absent') end
  local f = redis.call('HMGET', record, 'done', 'tries', 'first', 'last', 'fence')
  local done, tries, first = f[1] and tonumber(f[1]), tonumber(f[2] or 0), f[3] and tonumber(f[3])
  if counts(done, window) then
    on_master()
    return latest(done, window)
  end
  if f[5] == fence then return refuse('used') end
  if f[4] == fence then return refuse('begun', tries) end
  if not first or window > 0 and now >= first + window * 1000 then
    tries, first = 0, now
  end
  if most > 0 and tries >= most then return refuse('spent', tries) end
  -- mutants: count-try
  redis.call('HSET', record, 'tries', tries + 1, 'first', whole(first), 'last', fence)
  last_for(record, keep)
  return 'begun ' .. at .. ' ' .. (tries + 1)
end
