-- share_weigh.lua: changes the weight of a hold: a writer becomes a reader, or a reader that is alone becomes a writer.
-- KEYS    [1] lock  [2] queue  [3] fence counter  [4] index of holds
-- ARGV    [1] flags  [2] token  [3] weight  [4] the fence of the grant
--         [5] the fence of the lease, which is later if the grant was passed on within the process
-- Returns 'weighed NOW PTTL FENCE'
--         'held NOW'              there is no room for the weight; nothing was changed
--         'gone NOW'              the hold does not exist, or its weight was changed since
--         'absent NOW'            the hold does not exist; nobody has the lock
--         'quarantined NOW REST'  Strict mode: nothing is granted for so many ms
-- Invariants: the hold exists at all times. If it becomes heavier, it gets a new fence; if lighter, that of the lease, which readers
-- that join it share. If the request is sent twice, the second run changes nothing and replies as the first; a copy that comes after
-- the next change of weight changes nothing.
-- requires prelude, mint, shares, incarnation, answer

local wanted, had, leased = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function main()
  local rest = quarantine()
  local hold = load()
  if not hold then return refuse(used == 0 and 'absent' or 'gone') end
  local expiry, weight, fence, granted, info = parse_hold(hold)
  if fence ~= had and not (fence > had and weight == wanted) then return refuse('gone') end
  if wanted > weight then
    if rest > 0 then return quarantined(rest) end
    if not room(wanted - weight) then return refuse('held') end
    fence = mint(1)
  else
    insist()
    fence = math.max(fence, leased)
  end
  common_fence = fence
  used = used + wanted - weight
  write_hold(token, expiry, wanted, fence, granted, info)
  if wanted < weight and rest == 0 then
    pcall(serve)
  end
  return 'weighed ' .. at .. ' ' .. whole(math.floor((expiry - now) / 1000)) .. ' ' .. whole(fence)
end
