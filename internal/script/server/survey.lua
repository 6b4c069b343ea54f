-- survey.lua: returns the settings of the server that decide whether locks are safe on it. Changes nothing.
-- KEYS    [1] any key of the server
-- ARGV    [1] flags  [2] any token  [3] mark; '' in a Cluster. Users without a right to it could not run the script if it were in KEYS
-- Returns 'settings NOW MAXMEMORY POLICY ROLE STRICT': bytes, 0 for no limit; words as INFO has them; 'strict' if the server was admitted
-- to Strict mode; '-' for what is not so, or what this user is not told
-- requires request, answer

-- Reports whether this user may run a command. Trying one that is refused would add to the server's ACL LOG.
local function may(...)
  return not redis.acl_check_cmd or redis.acl_check_cmd(...)
end

local function info(section, field)
  if not may('INFO', section) then return '-' end
  local ok, text = pcall(redis.call, 'INFO', section)
  if not ok or type(text) ~= 'string' then return '-' end
  return string.match('\n' .. text, '\n' .. field .. ':(%S+)') or '-'
end

local function main()
  return 'settings ' .. at .. ' ' .. info('memory', 'maxmemory') .. ' '
    .. info('memory', 'maxmemory_policy') .. ' ' .. info('replication', 'role') .. ' '
    .. (ARGV[3] ~= '' and may('EXISTS', ARGV[3]) and redis.call('EXISTS', ARGV[3]) == 1 and 'strict' or '-')
end
