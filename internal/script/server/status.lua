-- status.lua: tells who holds a lock of any kind, and who waits for it, in order. Changes nothing.
-- KEYS    [1] lock  [2] queue; if the kind of lock is not known, the queues of several kinds, or none to learn only the kind
-- ARGV    [1] flags  [2] any token
--         [3] the kind of lock that the queue is for, in the words of KIND; of several queues the kinds in their order, with a space
--             between them; or '' for any, and then no waiters can be told
--         [4] 0, or the CURSOR of the reply before  [5] about how many holds to read  [6] how many waiters to read at most
-- Returns 'status NOW KIND FENCE LIMIT COUNT WAITERS CURSOR HOLDS', then for each of HOLDS holds a line feed and 'PTTL WEIGHT VALUE', and
--         for each waiter a line feed and 'SCORE WEIGHT INFO'
--             KIND     nothing; mutex; redisson; the kind of a lock that several may hold (shares.lua); or foreign: Holdfast did not write
--                      it. With several queues, a lock that does not exist is of the first kind for which somebody waits
--             FENCE    of the latest grant; 0 if only VALUE says it
--             LIMIT    of all weights; 0 if the server has none
--             COUNT    of a latch: how many parties have not counted down. -1 if the server has none
--             WAITERS  how many there are in all
--             CURSOR   0 if these were the last holds. Otherwise ask again, even if the reply has none
--             VALUE    in the form of a mutex's; '' if another program holds the lock
--             WEIGHT   0 of a lock with one holder
--             SCORE    in µs
--         'error BADKIND ...' if the lock is of another kind of Holdfast's than the one in [3]
-- Invariants: waiters are told in the order in which they are served; a hold that exists from the first call to the last is told at
-- least once; a line holds what one holder or waiter wrote, and no more than 2 KiB of it.
-- requires prelude, waiters, value, answer

local wanted, queue = ARGV[3], KEYS[2]
local weighed = { rw = true, sem = true, own = true, latch = true, bar = true }
local lines = {}

-- Writes a number that the server keeps as text, which anybody may have written; 0 if it is none.
local function number(text)
  local n = tonumber(text or nil)
  return n and n >= 0 and n <= 9e15 and whole(math.floor(n)) or '0'
end

local function is_wrong_type(err)
  return string.sub(error_text(err), 1, 10) == 'WRONGTYPE '
end

local function add(line)
  lines[#lines + 1] = '\n' .. string.gsub(line, '\n', ' ')
end

-- Returns the lock's kind; and its value if it has one holder, or fields of its hash if several may hold it.
local function look()
  local is_string, value = pcall(redis.call, 'GET', KEYS[1])
  if is_string then
    if not value then return 'nothing' end
    if string.sub(value, 1, 4) == 'hf2:' then return 'mutex', value end
    return 'foreign', ''
  end
  local is_hash, f = false, value
  if is_wrong_type(value) then
    is_hash, f = pcall(redis.call, 'HMGET', KEYS[1], 'kind', 'holdfast', 'limit', 'count', 'fence')
  end
  if not is_hash and not is_wrong_type(f) then error(error_text(f), 0) end
  if is_hash and weighed[f[1]] then return f[1], nil, f end
  if is_hash and (f[2] or string.find(flags, 'r', 1, true)) then return 'redisson', f[2] or '' end
  return 'foreign', ''
end

-- Adds holds of a lock that several may hold. Returns the cursor for the next.
local function add_holds()
  local page = redis.call('HSCAN', KEYS[1], ARGV[4], 'COUNT', ARGV[5])
  local all = page[2]
  for i = 1, #all, 2 do
    local expiry, weight, fence, granted, info = string.match(all[i + 1], '^(%d+):(%d+):(%d+):(%d+):(.*)$')
    if expiry and tonumber(expiry) > now then
      add(number((expiry - now) / 1000) .. ' ' .. number(weight) .. ' '
        .. string.sub(lock_value('hf2:' .. all[i] .. ':', fence, granted, '0', info), 1, 2048))
    end
  end
  return page[1]
end

-- Adds the first n waiters. They are told of even if nothing else is known of them.
local function add_waiters(n)
  -- mutants: status-in-order
  local all = redis.call('ZRANGEBYSCORE', queue, '0', '+inf', 'WITHSCORES', 'LIMIT', '0', n)
  for i = 1, #all, 2 do
    local _, _, _, info = parse_waiter(all[i])
    local weight
    if weighed[wanted] then
      weight, info = string.match(info or '', '^(%d+)\n(.*)$')
    end
    if wanted == 'own' then info = string.match(info or '', '^[^\n]*\n(.*)$') end
    add(number(all[i + 1]) .. ' ' .. number(weight) .. ' ' .. string.sub(info or '', 1, 2048))
  end
end

local function waiting(key)
  return redis.call('ZCOUNT', key, '0', '+inf')
end

-- Chooses the queue of the lock's kind or, if there is none, the first in which somebody waits. Returns the kind.
local function choose(kind)
  local known, i, kinds = kind ~= 'nothing' and kind ~= 'foreign', 1, wanted
  wanted = ''
  for of in string.gmatch(kinds, '%S+') do
    i = i + 1
    if wanted == '' and (of == kind or not known and waiting(KEYS[i]) > 0) then
      wanted, queue = of, KEYS[i]
    end
  end
  return kind == 'nothing' and wanted ~= '' and wanted or kind
end

local function main()
  local kind, value, f = look()
  if string.find(wanted, ' ', 1, true) then kind = choose(kind) end
  if wanted ~= '' and kind ~= wanted and kind ~= 'nothing' and kind ~= 'foreign' then
    error('BADKIND the key holds another kind of lock, or something else', 0)
  end
  local cursor = '0'
  if value then
    add(redis.call('PTTL', KEYS[1]) .. ' 0 ' .. string.sub(value, 1, 2048))
  elseif f then
    cursor = add_holds()
  end
  local holds, count = #lines, f and f[4] and number(f[4]) or '-1'
  f = f or {}
  local queued = queue and waiting(queue) or 0
  if wanted ~= '' then
    add_waiters(ARGV[6])
  end
  return 'status ' .. at .. ' ' .. kind .. ' ' .. number(f[5]) .. ' ' .. number(f[3]) .. ' ' .. count .. ' '
    .. queued .. ' ' .. cursor .. ' ' .. holds .. table.concat(lines)
end
