-- waits.lua: writes and returns for what the holder of a grant waits, so that deadlocks can be found.
-- KEYS    [1] the grant's waits: a hash of TEXT by ID that lasts for 5 s after the latest change
-- ARGV    [1] flags  [2] any token  [3] ID of a wait, or '' to change nothing  [4] its TEXT, or '' when it has ended
-- Returns 'waits NOW N', then for each of N waits a line feed and TEXT; of more than 100 waits, about 100
-- requires request, answer

local function main()
  local id, text = ARGV[3], ARGV[4]
  if text ~= '' then
    redis.call('HSET', KEYS[1], id, text)
    redis.call('PEXPIRE', KEYS[1], 5000)
  elseif id ~= '' then
    redis.call('HDEL', KEYS[1], id)
  end
  local all, lines = redis.call('HSCAN', KEYS[1], '0', 'COUNT', '100')[2], ''
  for i = 2, #all, 2 do
    lines = lines .. '\n' .. all[i]
  end
  return 'waits ' .. at .. ' ' .. #all / 2 .. lines
end
