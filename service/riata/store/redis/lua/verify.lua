#!lua flags=allow-oom
-- Record whether a generation was read back unchanged.
-- KEYS   own, meta, gens
-- ARGV   identity, epoch, nonce, generation, 1 if it is unchanged, otherwise 0
-- Return OK  |  FENCED  |  MODEL  |  GENERATION: no such  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
if redis.call('EXISTS', KEYS[2]) == 0 then return {'MODEL'} end
local packed = redis.call('HGET', KEYS[3], ARGV[4])
if not packed then return {'GENERATION'} end
redis.call('HSET', KEYS[3], ARGV[4], ARGV[5] .. string.sub(packed, 2))
return {'OK'}
