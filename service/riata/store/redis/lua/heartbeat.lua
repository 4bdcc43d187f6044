#!lua flags=allow-oom
-- Renew the lease.
-- KEYS   own
-- ARGV   identity, epoch, nonce, ttl in ms
-- Return OK  |  FENCED  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
redis.call('HSET', KEYS[1], 'deadline_ms', str(now_ms() + tonumber(ARGV[4])))
return {'OK'}
