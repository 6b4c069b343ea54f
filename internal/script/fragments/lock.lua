-- lock.lua: where a mutex keeps its value.
-- The value is the key's string. With the flag 'r' it is the field 'holdfast' of a hash, the form that Redisson gives its RLock: each
-- holder has a field ID:THREAD that counts how often it has the lock. Ours is TOKEN:1, and counts 1. A hash without the field 'holdfast'
-- is the lock of a Redisson client. Redisson clients never add a field to the hash of another holder.
-- requires prelude

local redisson = string.find(flags, 'r', 1, true)

-- Returns the lock's value, '' if a Redisson client has the lock, or false if nobody has. It reads with command, or with redis.call.
local function read_lock(command)
  command = command or redis.call
  if not redisson then return command('GET', KEYS[1]) end
  return command('HGET', KEYS[1], 'holdfast') or command('EXISTS', KEYS[1]) == 1 and ''
end

-- Gives the lock, which is free or ours, to that holder for ttl ms. The hash always keeps a field: in a Cluster's slot that moves, a key
-- that was deleted cannot be created again.
local function write_lock(holder, value, ttl)
  if not redisson then
    redis.call('SET', KEYS[1], value, 'PX', ttl)
    return
  end
  local old = string.match(redis.call('HGET', KEYS[1], 'holdfast') or '', '^hf2:([^:]*):')
  redis.call('HSET', KEYS[1], holder .. ':1', 1, 'holdfast', value)
  local ok, err = pcall(function()
    if old and old ~= holder then
      redis.call('HDEL', KEYS[1], old .. ':1')
    end
    -- mutants: redisson-expiry
    redis.call('PEXPIRE', KEYS[1], ttl)
  end)
  if not ok then
    -- A lock without an expiry would last forever.
    redis.call('DEL', KEYS[1])
    error(error_text(err), 0)
  end
end

-- Deletes the lock, and wakes Redisson's waiters. In Cluster mode they listen on a sharded channel or on an ordinary one. If they cannot be
-- told, the lock is free all the same.
local function free_lock()
  if redis.call('DEL', KEYS[1]) == 0 or not redisson then return end
  local tagged = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
  local channel = 'redisson_lock__channel:' .. tagged
  if cluster then
    pcall(redis.call, 'SPUBLISH', channel, '0')
  end
  pcall(redis.call, 'PUBLISH', channel, '0')
end
