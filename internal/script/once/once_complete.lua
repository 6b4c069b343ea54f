-- once_complete.lua: records that a job was completed by the holder of its lock.
-- KEYS    [1] the job's lock  [2] its record, once_record.lua
-- ARGV    [1] flags  [2] token  [3] for how many ms to keep the record  [4] the lease's fence  [5] info  [6] result
-- Returns 'completed NOW COMPLETED TRY'  COMPLETED is when it was recorded, in µs
--         'gone NOW', 'absent NOW'       the lock is another's, who may have begun; or nobody's: another may have begun and ended
-- Invariants: a run whose lock was lost does not count; sent twice, it is recorded once.
-- requires prelude, once_record, answer

local keep, fence, info, result = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]

local function completed(done, count)
  return 'completed ' .. at .. ' ' .. done .. ' ' .. count
end

local function main()
  local f = redis.call('HMGET', record, 'done', 'fence', 'count', 'tries', 'last')
  if f[2] == fence then
    on_master()
    return completed(f[1], f[3])
  end
  local value = redis.call('GET', KEYS[1])
  -- mutants: completion-owner
  if not is_mine(value) then return refuse(value and 'gone' or 'absent') end
  -- The next try is the first of another window. HDEL comes first: it, and so all after it, works even if the server is out of memory.
  redis.call('HDEL', record, 'tries', 'first')
  -- A record that was lost after the job was begun has no tries.
  local count = f[5] == fence and f[4] or '1'
  redis.call('HSET', record, 'done', at, 'fence', fence, 'info', info, 'result', result, 'count', count)
  last_for(record, keep)
  return completed(at, count)
end
