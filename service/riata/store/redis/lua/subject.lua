#!lua flags=allow-oom
-- Keep the key of the digests of subjects, unless there is one.
-- KEYS   own, subject
-- ARGV   identity, key
-- Return OK, the key that is kept  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
redis.call('SETNX', KEYS[2], ARGV[2])
return {'OK', redis.call('GET', KEYS[2])}
