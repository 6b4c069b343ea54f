-- answer.lua: runs main, which the including script defines, and replies with what it
-- returns, or with the error that it raised. A fragment; the last line of a script.
local ok, reply = pcall(main)
if ok then
  return reply
end
return 'error ' .. message(reply)
