#!lua flags=allow-oom
-- Give the store up, where `epoch` and `nonce` own it.
-- KEYS   own
-- ARGV   identity, epoch, nonce
-- Gives  OK  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if owns(KEYS[1], ARGV[2], ARGV[3]) then redis.call('HSET', KEYS[1], 'nonce', '') end
return {'OK'}
