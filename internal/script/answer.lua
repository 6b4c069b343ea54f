-- answer.lua: runs main, which the including script defines, and replies with what it
-- returns, or with the error that it raised. A fragment; the last line of a script.
local ok, reply = pcall(main)
if ok then
  return reply
end
reply = message(reply)
-- The client's pool must see this one: who asks over this connection again, asks the
-- same replica, for ever, and the master may be elsewhere by now.
if string.sub(reply, 1, 9) == 'READONLY ' then
  return { err = reply }
end
return 'error ' .. reply
