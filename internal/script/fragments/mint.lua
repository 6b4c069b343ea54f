-- mint.lua: issues fences from the fence counter, a stream. An entry with the id MS-SEQ stands for the fence MS * 1000 + SEQ. The server
-- makes MS its own time or, if the last entry has that MS or a later one, keeps the last MS and counts SEQ up. So a fence is above all
-- earlier ones and, even after the counter was lost, not below the server's time in µs, rounded down to a ms.
-- requires request

local counter = KEYS[3]

-- A counter leads the clock if reserved fences were not used, or the clock went back. If it leads by a day or more, somebody has set it: a
-- resource that saw a fence from it would refuse every later holder, for good.
local longest_lead = 86400000000

-- How many entries a counter keeps at least. An empty one still knows its last id, and takes less than 4 KB. A Cluster has thousands.
local kept = cluster and '0' or '1'

-- Returns the reply to a command on the counter. Raises it if it is an error.
local function checked(reply)
  if reply.err then
    error(string.find(reply.err, 'WRONGTYPE', 1, true) and 'BADFENCE the fence counter ' .. counter .. ' is not a stream' or reply.err, 0)
  end
  return reply
end

-- Returns a fence of the counter. Raises an error if it cannot be believed.
local function believed(fence)
  -- mutants: counter-believed
  if fence - now >= longest_lead then
    error('BADFENCE the fence counter ' .. counter .. " leads the server's clock by more than a day: set that clock right if it is behind; if the counter was set by somebody, delete it, and fences follow the clock again", 0)
  end
  return fence
end

-- Raises the counter to that fence, which is above its last one.
local function raise_to(fence)
  checked(redis.pcall('XADD', counter, 'MAXLEN', '~', kept, string.format('%d-%d', math.floor(fence / 1000), fence % 1000), 'g', ''))
end

-- Returns the fence of an id, and its SEQ as text.
local function fence_of(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return ms * 1000 + seq, seq
end

-- Issues up to n fences, and returns the first and their number. That is 1 while the counter leads the clock by more than a second.
local function mint(n)
  -- mutants: fence-floor
  local id = checked(redis.pcall('XADD', counter, 'MAXLEN', '~', kept, '*', 'g', ''))
  local fence, seq = fence_of(id)
  believed(fence)
  -- From a SEQ of 1000 on, the fences of the ids that follow would be those of later MS, too.
  -- mutants: fence-within-ms
  if #seq > 3 then
    raise_to(fence)
  end
  -- mutants: counter-stays
  if fence - now > 1000000 then
    n = 1
  end
  if n > 1 then
    raise_to(fence + n - 1)
  end
  -- mutants: minted
  return fence, n
end

-- Returns the reply to a renewal, with n fences that issue reserves for hand-overs within the process. If issue fails, there are none.
local function renewed(pttl, n, issue)
  local ok, fence, issued = false, 0, 0
  if n > 0 then ok, fence, issued = pcall(issue, n) end
  return 'renewed ' .. at .. ' ' .. pttl .. ' ' .. whole(ok and fence or 0) .. ' ' .. (ok and issued or 0)
end
