-- announce.lua: tells those who watch a lock to look who holds it. Changes nothing.
-- KEYS    [1] lock  ([2] is not used)
-- ARGV    [1] flags  [2] any token  [3] channel
-- Returns 'told NOW RECEIVERS'
-- requires prelude, channel, answer

local function main()
  on_master()
  return 'told ' .. at .. ' ' .. send(ARGV[3], 'hf2 changed ' .. at)
end
