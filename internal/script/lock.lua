-- lock.lua: where a mutex has its value. A fragment; needs prelude.lua.
--
-- The value is the key's string; or, with the flag 'r', the field 'holdfast' of a hash, as
-- which Redisson keeps its RLock. In that hash each holder has a field ID:THREAD, with how
-- often it has the lock: ours has TOKEN:1, once. A hash without 'holdfast' is the lock of a
-- Redisson client, whose clients never add a field to the hash of another holder.
local redisson = string.find(flags, 'r', 1, true)

local function field(owner)
  return owner .. ':1'
end

-- Returns the lock's value, '' for a Redisson client's, or false. command is how to read, if
-- not by redis.call.
local function read_lock(command)
  command = command or redis.call
  if not redisson then
    return command('GET', KEYS[1])
  end
  return command('HGET', KEYS[1], 'holdfast') or command('EXISTS', KEYS[1]) == 1 and ''
end

-- Gives the lock, which is free or ours, a value for ttl ms. A hash is never without fields
-- meanwhile: in a Cluster's slot that is on the move it could not be made again.
local function write_lock(owner, value, ttl)
  if not redisson then
    redis.call('SET', KEYS[1], value, 'PX', ttl)
    return
  end
  local old = string.match(redis.call('HGET', KEYS[1], 'holdfast') or '', '^hf1:([^:]*):')
  redis.call('HSET', KEYS[1], field(owner), 1, 'holdfast', value)
  local ok, err = pcall(function()
    if old and old ~= owner then
      redis.call('HDEL', KEYS[1], field(old))
    end
    -- mutants: redisson-expiry
    redis.call('PEXPIRE', KEYS[1], ttl)
  end)
  if not ok then
    -- Without an expiry it would last for ever.
    redis.call('DEL', KEYS[1])
    error(message(err), 0)
  end
end

-- Marks a value of ours: somebody waits.
local function mark_lock(value)
  if redisson then
    redis.call('HSET', KEYS[1], 'holdfast', value .. '+')
  else
    redis.call('APPEND', KEYS[1], '+')
  end
end

-- Frees the lock, and wakes Redisson's waiters: in Cluster mode they have sharded channels,
-- or ordinary ones. That they are not told does not keep a lock from being given up.
local function free_lock()
  if redis.call('DEL', KEYS[1]) == 0 or not redisson then
    return
  end
  local tagged = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
  local channel = 'redisson_lock__channel:' .. tagged
  if cluster then
    pcall(redis.call, 'SPUBLISH', channel, '0')
  end
  pcall(redis.call, 'PUBLISH', channel, '0')
end
