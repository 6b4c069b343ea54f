-- latch_reset.lua: begins a latch's count again, or deletes the latch. Parties that have joined no longer count.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds
-- ARGV    [1] flags  [2] id of the reset, as a token  [3] parties, 0 to delete the latch  [4] not-after, server time in µs
-- Returns 'reset NOW', or 'late NOW': not-after has come, and nothing was done
-- Invariants: sent twice, it resets once.
-- requires prelude, parties, shares, tombstone, answer

local parties, not_after = tonumber(ARGV[3]), tonumber(ARGV[4])

local function main()
  if redis.call('ZSCORE', KEYS[2], 'd:' .. token) then
    touch_latch()
    return 'reset ' .. at
  end
  if now >= not_after then return refuse('late') end
  load('latch')
  insist()
  complete_index()
  in_parts('HDEL', KEYS[1], redis.call('ZRANGE', expiries, '0', '-1'))
  if parties > 0 then
    -- The index keeps the tokens for as long as their holds would have lasted: is_superseded reads it.
    redis.call('ZREMRANGEBYSCORE', expiries, '-inf', at)
    let_index_end()
    begin_count(parties)
  else
    redis.call('DEL', expiries)
    if redis.call('EXISTS', KEYS[1]) == 1 then
      delete_count()
    end
  end
  remember('d:' .. token, not_after)
  tell('latch')
  return 'reset ' .. at
end
