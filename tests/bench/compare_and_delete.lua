-- Releases the canonical lock, if it is still the caller's.
-- KEYS: the lock. ARGV: the token. Replies 1 if it was, 0 if not.
if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end
