-- once_complete.lua: writes down that a job was completed, by the holder of its lock.
--
-- KEYS    [1] the job's lock  [2] its record, record.lua
-- ARGV    [1] flags as in prelude.lua  [2] token  [3] keep the record for so many ms
--         [4] the lease's fence  [5] info  [6] result
-- Returns 'completed NOW COMPLETED TRY'  COMPLETED in µs, the server's time when it was
--             written down
--         'gone NOW'    the lock is not the token's: another may have begun
--         'error MESSAGE'
--
-- Invariants: a run whose lock was lost does not count; sent twice, it is written once.

-- include prelude.lua
-- include record.lua

local keep, fence, info, result = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]

local function completed(done, count)
  return 'completed ' .. whole(now) .. ' ' .. done .. ' ' .. count
end

local function main()
  local f = redis.call('HMGET', record, 'done', 'fence', 'count', 'tries', 'last')
  if f[2] == fence then
    on_master()
    return completed(f[1], f[3])
  end
  local value = redis.call('GET', KEYS[1])
  -- mutants: completion-owner
  if not value or string.sub(value, 1, #mine) ~= mine then
    on_master()
    return 'gone ' .. whole(now)
  end
  -- The next try is the first of another window. This comes first, since HDEL works also when
  -- the server is out of memory, and so does what comes after a script's first write.
  redis.call('HDEL', record, 'tries', 'first')
  -- A record that was lost after the job was begun has no tries.
  local count = f[5] == fence and f[4] or '1'
  redis.call('HSET', record, 'done', whole(now), 'fence', fence, 'info', info, 'result', result, 'count', count)
  keep_record(keep)
  return completed(whole(now), count)
end

-- include answer.lua
