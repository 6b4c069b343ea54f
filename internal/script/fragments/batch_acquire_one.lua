-- batch_acquire_one.lua: acquires one lock for batch_acquire.lua, which requires this first. If there are more,
-- the rest of the script acquires them. The functions and tables of that rest cost as much as all commands that
-- one lock takes, so this has few of its own.
--
-- requires short_fence
-- requires value

if #KEYS == 3 then
  local clock = redis.call('TIME')
  local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
  -- mutants: lone-free
  if tonumber(at) >= tonumber(ARGV[2]) or redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
    return 'taken ' .. at .. ' 0 1'
  end
  -- mutants: lone-fence
  local fence = short_fence(KEYS[3], at)
  if not fence then
    return 'taken ' .. at .. ' 0 1'
  end
  redis.call('SET', KEYS[1], lock_value(ARGV[3], fence, string.sub(at, 1, -4), '0', ARGV[5]), 'PX', ARGV[4])
  -- mutants: lone-taken
  return 'taken ' .. at .. ' ' .. fence
end
