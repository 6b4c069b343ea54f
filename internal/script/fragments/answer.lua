-- answer.lua: runs a script's main, and makes its errors replies; load.go adds the call. What such a script may have done: PROTOCOL.md.

-- Returns the text of an error. Servers raise those of redis.call as tables, or as strings that may begin with a position in the script.
local function error_text(err)
  if type(err) == 'table' then return err.err end
  return (string.gsub(tostring(err), '^[^ ]*:%d+: ', ''))
end

-- Returns what main returns, or the error that it raised.
local function answer(main)
  local ok, reply = pcall(main)
  if ok then return reply end
  reply = error_text(reply)
  -- The client's connection pool must see this one, or the next request on the connection goes to the same replica.
  if string.sub(reply, 1, 9) == 'READONLY ' then return { err = reply } end
  return 'error ' .. reply
end
