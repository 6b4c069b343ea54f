-- batch_acquire_one.lua: acquires one lock for batch_acquire.lua, which requires this first. If there are more,
-- the rest of the script acquires them. The functions and tables of that rest cost as much as all commands that
-- one lock takes, so this has few of its own.
--
-- requires fence_counter
-- requires value

if #KEYS == 3 then
  local clock = redis.call('TIME')
  local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
  -- mutants: lone-free
  if tonumber(at) >= tonumber(ARGV[2]) or redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
    return 'taken ' .. at .. ' 0 1'
  end
  -- mutants: lone-fence
  local fence, last = at, redis.call('GET', KEYS[3])
  -- A counter below the clock, which nearly every one is, is recognized by its text.
  -- mutants: lone-counter
  if last and (#last ~= #at or last >= at or not string.find(last, '^%d+$')) then
    local ok, counter = pcall(believed, KEYS[3], last, tonumber(at))
    if not ok then
      return 'taken ' .. at .. ' 0 1' -- acquire.lua tells what is wrong with it
    end
    -- mutants: lone-next-fence
    fence = string.format('%d', math.max(counter + 1, tonumber(at)))
  end
  if string.find(ARGV[1], 'c', 1, true) then
    redis.call('SET', KEYS[3], fence, 'EX', 86400)
  else
    -- mutants: lone-counter-stays
    redis.call('SET', KEYS[3], fence)
  end
  redis.call('SET', KEYS[1], lock_value(ARGV[3], fence, string.sub(at, 1, -4), '0', ARGV[5]), 'PX', ARGV[4])
  -- mutants: lone-taken
  return 'taken ' .. at .. ' ' .. fence
end
