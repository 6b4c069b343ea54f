-- answer.lua: the last line of a script is "return answer(main)". So every script may also reply 'error MESSAGE'; PROTOCOL.md says what
-- each may have done by then.

-- Returns the text of an error. Some servers raise the errors of redis.call as tables, others as strings, which may begin with a position
-- in the script.
local function error_text(err)
  if type(err) == 'table' then
    return err.err
  end
  return (string.gsub(tostring(err), '^[^ ]*:%d+: ', ''))
end

-- Returns what main returns, or the error that it raised.
local function answer(main)
  local ok, reply = pcall(main)
  if ok then
    return reply
  end
  reply = error_text(reply)
  -- The client's connection pool must see this one. Otherwise the next request on the connection goes to the same replica, although
  -- the master is elsewhere.
  if string.sub(reply, 1, 9) == 'READONLY ' then
    return { err = reply }
  end
  return 'error ' .. reply
end
