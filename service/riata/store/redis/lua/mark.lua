#!lua flags=allow-oom
-- Record which event a start is about to apply.
-- KEYS   own, meta
-- ARGV   identity, epoch, nonce, seq, deaths
-- Return OK  |  FENCED  |  MODEL  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
if redis.call('EXISTS', KEYS[2]) == 0 then return {'MODEL'} end
redis.call('HSET', KEYS[2], 'inflight_seq', ARGV[4], 'inflight_deaths', ARGV[5])
return {'OK'}
