-- end.lua: runs the function that begin.lua opened and turns its reply into text, since drivers return text. Errors
-- stay errors.
--
-- Returns a string, number or status as text; '' for nil and false; '1' for true; other tables as JSON
end
local reply = write()
if type(reply) == 'table' then
  if reply.err then
    return reply
  end
  return reply.ok or cjson.encode(reply)
elseif type(reply) == 'number' then
  return string.format('%.17g', reply)
end
return type(reply) == 'string' and reply or reply and '1' or ''
