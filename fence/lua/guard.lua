-- guard.lua: refuses whoever shows a fence below the mark of a resource, and raises the
-- mark for everybody else. Put before a script that writes, it guards that script: both
-- run as one atomic step.
--
-- KEYS    [last] mark; the others are the script's
-- ARGV    [last - 3] fence  [last - 2] owner  [last - 1] 'shared' when others may hold the
--         lock with the same fence, as readers do; else 'alone'
--         [last] how long the mark lives after this, in ms; 0: for ever. The others are the
--         script's
-- Returns error 'STALE FENCE OWNER' when the mark is higher, or as high and another
--               owner's, unless shared: what was seen
--         error 'BADMARK ...' when the key holds something else, or the fence is none
--
-- Invariants: after an error nothing has changed; a mark never goes down, and never gets
-- less time to live than it had; the script that follows finds its own KEYS and ARGV only.
--
-- The mark is a string, FENCE OWNER. Fences are compared as text: Lua's numbers are not
-- exact above 2^53.
do
  local mark = table.remove(KEYS)
  local life = table.remove(ARGV) or ''
  local beside = table.remove(ARGV) or ''
  local owner = table.remove(ARGV) or ''
  local fence = table.remove(ARGV) or ''
  if not mark or owner == '' or beside ~= 'shared' and beside ~= 'alone' or not string.match(life, '^%d+$') or not string.match(fence, '^[1-9]%d*$') then
    return redis.error_reply('BADMARK the last of KEYS is to be a mark; the last of ARGV a fence, its owner, shared or alone, and a time to live')
  end
  local seen = redis.call('GET', mark)
  if seen then
    local highest, holder = string.match(seen, '^([1-9]%d*) (.+)$')
    if not highest then
      return redis.error_reply('BADMARK the key of the mark holds something else')
    end
    if #fence < #highest or #fence == #highest and fence < highest or fence == highest and owner ~= holder and beside == 'alone' then
      return redis.error_reply('STALE ' .. seen)
    end
  end
  local left = redis.call('PTTL', mark)
  if life == '0' or left == -1 then
    redis.call('SET', mark, fence .. ' ' .. owner)
  else
    redis.call('SET', mark, fence .. ' ' .. owner, 'PX', string.format('%.0f', math.max(life, left)))
  end
end
