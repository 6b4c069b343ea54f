-- value.lua: the value of a lock (prelude.lua). Every script that writes a value, or replies with one in its form, builds it here.

-- head is 'hf2:TOKEN:', granted the server's time of the grant in ms, chain '0' unless the key is shared with other programs (chain.lua).
-- While somebody waits, a '+' follows the value.
local function lock_value(head, fence, granted, chain, info)
  return head .. fence .. ':' .. granted .. ':' .. chain .. ':' .. info
end
