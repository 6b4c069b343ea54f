-- lone.lua: how batch_acquire.lua takes one lock. A fragment, at the beginning of that: the functions
-- and tables that many locks need cost as much as all commands for one.
if #KEYS == 3 then
  local clock = redis.call('TIME')
  local at = clock[1] .. string.sub('00000', #clock[2]) .. clock[2]
  -- mutants: lone-free
  if tonumber(at) >= tonumber(ARGV[2]) or redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
    return 'taken ' .. at .. ' 0 1'
  end
  -- mutants: lone-fence
  local fence, last = at, redis.call('GET', KEYS[3])
  -- mutants: lone-counter
  if last and (#last ~= #at or last >= at or not string.find(last, '^%d+$')) then
    if not string.find(last, '^%d+$') or #last > 16 or tonumber(last) - tonumber(at) >= 86400000000 then
      return 'taken ' .. at .. ' 0 1' -- acquire.lua says what is wrong with it
    end
    -- mutants: lone-next-fence
    fence = string.format('%d', math.max(tonumber(last) + 1, tonumber(at)))
  end
  if string.find(ARGV[1], 'c', 1, true) then
    redis.call('SET', KEYS[3], fence, 'EX', 86400)
  else
    -- mutants: lone-counter-stays
    redis.call('SET', KEYS[3], fence)
  end
  redis.call('SET', KEYS[1], ARGV[3] .. fence .. ':' .. string.sub(at, 1, -4) .. ':0:' .. ARGV[5], 'PX', ARGV[4])
  -- mutants: lone-taken
  return 'taken ' .. at .. ' ' .. fence
end
