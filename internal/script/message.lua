-- message.lua: what an error says. A fragment.
--
-- Errors of redis.call are tables on some servers; on others strings, some of which
-- begin with a position.
local function message(err)
  if type(err) == 'table' then
    return err.err
  end
  return (string.gsub(tostring(err), '^[^ ]*:%d+: ', ''))
end
