#!lua flags=allow-oom
-- Release the store if `epoch` and `nonce` own it.
-- KEYS   own
-- ARGV   identity, epoch, nonce
-- Return OK  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if owns(KEYS[1], ARGV[2], ARGV[3]) then redis.call('HSET', KEYS[1], 'nonce', '') end
return {'OK'}
