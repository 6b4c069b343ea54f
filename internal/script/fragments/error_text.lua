-- error_text.lua: the text of an error.

-- Some servers raise the errors of redis.call as tables, others as strings, which may begin with a position in the script.
local function error_text(err)
  if type(err) == 'table' then
    return err.err
  end
  return (string.gsub(tostring(err), '^[^ ]*:%d+: ', ''))
end
