-- share_missing.lua: the reply that the caller's hold does not exist.
-- requires shares

-- Reports whether share_disown.lua or latch_reset.lua has ended the caller's hold. It is only for people, so it raises no error.
local function is_superseded()
  if kind == 'latch' then return tonumber(look_at('ZSCORE', expiries, token) or 0) > now end
  return look_at('ZSCORE', expiries, 's:' .. token)
end

-- Returns the reply that the caller's hold does not exist: 'superseded NOW' if it was ended by one of these scripts, 'absent NOW' if nobody
-- has the lock, and 'gone NOW' if others have it.
local function missing()
  if is_superseded() then return 'superseded ' .. at end
  -- mutants: share-absent
  return (used == 0 and 'absent ' or 'gone ') .. at
end
