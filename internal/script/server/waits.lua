-- waits.lua: writes for what the holder of a grant waits, or returns it, so that deadlocks can be found.
-- KEYS    [1] the grant's waits: a hash of TEXT by ID, with the time before TEXT. An entry counts for 5 s
-- ARGV    [1] flags  [2] any token  [3] ID of a wait, or '' to read  [4] its TEXT, or '' when it has ended
-- Returns 'waits NOW N', then for each of N waits a line feed and TEXT; of more than 100 waits, about 100. When it writes, N is 0
-- requires request, answer

local function main()
  local id, text, lines = ARGV[3], ARGV[4], {}
  if text ~= '' then
    redis.call('HSET', KEYS[1], id, at .. ' ' .. text)
    redis.call('PEXPIRE', KEYS[1], 5000)
  elseif id ~= '' then
    redis.call('HDEL', KEYS[1], id)
  else
    local all = redis.call('HSCAN', KEYS[1], '0', 'COUNT', '100')[2]
    for i = 2, #all, 2 do
      local since, said = string.match(all[i], '^(%d+) ([^\n]+)$')
      if since and now - tonumber(since) < 5000000 and #said <= 16384 then
        lines[#lines + 1] = '\n' .. said
      else
        redis.pcall('HDEL', KEYS[1], all[i - 1]) -- not all who read may delete
      end
    end
  end
  return 'waits ' .. at .. ' ' .. #lines .. table.concat(lines)
end
