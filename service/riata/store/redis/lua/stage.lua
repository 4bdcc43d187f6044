#!lua flags=allow-oom
-- Store one chunk of a coming checkpoint; staging it again replaces it.
-- KEYS   own, meta, gens, stage, chunks of the generation
-- ARGV   identity, epoch, nonce, generation, index, digest and bytes of the chunk in one, number of this call, 1 if this is a
--        retry
-- Return OK  |  FENCED  |  EXISTS: the generation is committed  |  STALE, number of the last call  |  MODEL  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if redis.call('EXISTS', KEYS[2]) == 0 then return {'MODEL'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
if redis.call('HEXISTS', KEYS[3], ARGV[4]) == 1 then return {'EXISTS'} end
local last = overtaken(KEYS[2], 'staged', ARGV[7], ARGV[8])
if last then return {'STALE', last} end
redis.call('HSET', KEYS[2], 'staged', ARGV[7])
redis.call('HSET', KEYS[5], ARGV[5], ARGV[6])
redis.call('HSET', KEYS[4], ARGV[4] .. ':' .. ARGV[5], ARGV[2])
return {'OK'}
