#!lua flags=allow-oom
-- Store one piece of a coming edition; the first piece deletes those of an earlier attempt.
-- KEYS   own, meta, pieces of the edition
-- ARGV   identity, epoch, nonce, number of the edition, index, digest and bytes of the piece in one, number of this call, 1 if this
--        is a retry
-- Return OK  |  FENCED  |  NUMBER: another edition is next  |  STALE, number of the last call  |  MODEL  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local newest = redis.call('HGET', KEYS[2], 'edition')
if not newest then return {'MODEL'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
if tonumber(newest) + 1 ~= tonumber(ARGV[4]) then return {'NUMBER'} end
local last = overtaken(KEYS[2], 'pieces', ARGV[7], ARGV[8])
if last then return {'STALE', last} end
redis.call('HSET', KEYS[2], 'pieces', ARGV[7])
if ARGV[5] == '0' then redis.call('UNLINK', KEYS[3]) end
redis.call('HSET', KEYS[3], ARGV[5], ARGV[6])
return {'OK'}
