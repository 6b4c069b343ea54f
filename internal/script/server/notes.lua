-- notes.lua: tells what the journal has, the latest entries first. Changes nothing.
-- KEYS    [1] journal
-- ARGV    [1] flags  [2] any text  [3] how many entries to leave out  [4] how many to look at, at most
-- Returns 'notes NOW N', N being how many entries were looked at; then for each of them, unless it is in another form, a line feed and its
--             time (µs), and its three lines (journal.lua), each after a line feed
-- requires request, answer

local function main()
  local left = math.max(redis.call('ZCOUNT', KEYS[1], '-inf', '+inf') - ARGV[3], 0)
  local n = math.min(left, tonumber(ARGV[4]))
  local all = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf', 'WITHSCORES', 'LIMIT', whole(left - n), whole(n))
  local lines = {}
  for i = #all - 1, 1, -2 do
    if string.match(all[i], '^hf2 %a+ [^\n]+\n[^\n]*\n[^\n]*$') and #all[i] <= 8192 then
      lines[#lines + 1] = '\n' .. whole(tonumber(all[i + 1])) .. '\n' .. all[i]
    end
  end
  return 'notes ' .. at .. ' ' .. #all / 2 .. table.concat(lines)
end
