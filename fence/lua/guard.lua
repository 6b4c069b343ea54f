-- guard.lua: refuses a fence below the mark of a resource, and otherwise raises the mark. Put before a script that
-- writes, it guards that script, since both run as one atomic step.
--
-- KEYS    [last] the mark; the others are the script's
-- ARGV    [last - 3] fence  [last - 2] owner
--         [last - 1] 'shared' if others may hold the lock with the same fence, as readers do; otherwise 'alone'
--         [last] how long to keep the mark from now on, in ms; 0: forever
--         The others are the script's.
-- Returns error 'STALE FENCE OWNER', with the mark's fence and owner, if the mark is higher, or if it is equal but of
--               another owner and the fence is not shared
--         error 'BADMARK ...' if the key holds something else, or the arguments are invalid
--
-- Invariants: after an error nothing has changed; a mark never goes down, and never gets a shorter time to live; the
-- script that follows finds only its own KEYS and ARGV.
--
-- The mark is the string 'FENCE OWNER'. Fences are compared as text, because Lua's numbers are not exact above 2^53.
do
  local mark = table.remove(KEYS)
  local life = table.remove(ARGV) or ''
  local sharing = table.remove(ARGV) or ''
  local owner = table.remove(ARGV) or ''
  local fence = table.remove(ARGV) or ''
  if not mark or owner == '' or sharing ~= 'shared' and sharing ~= 'alone' or not string.match(life, '^%d+$') or not string.match(fence, '^[1-9]%d*$') then
    return redis.error_reply('BADMARK the last of KEYS is to be a mark; the last of ARGV a fence, its owner, shared or alone, and a time to live')
  end
  local seen = redis.call('GET', mark)
  if seen then
    local highest, holder = string.match(seen, '^([1-9]%d*) (.+)$')
    if not highest then
      return redis.error_reply('BADMARK the key of the mark holds something else')
    end
    if #fence < #highest or #fence == #highest and fence < highest or fence == highest and owner ~= holder and sharing == 'alone' then
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
