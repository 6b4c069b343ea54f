-- answer.lua: the last line of a script is "return answer(main)". So every script may also reply 'error MESSAGE'; PROTOCOL.md says what
-- each may have done by then.
-- requires error_text

-- Returns what main returns, or the error that it raised.
local function answer(main)
  local ok, reply = pcall(main)
  if ok then
    return reply
  end
  reply = error_text(reply)
  -- The client's connection pool must see this one. Otherwise the next request on the connection goes to the same replica,
  -- although the master is elsewhere.
  if string.sub(reply, 1, 9) == 'READONLY ' then
    return { err = reply }
  end
  return 'error ' .. reply
end
