#!lua flags=allow-oom
-- Delete some buckets of the oldest range of ids, if all of the range is below the floor.
-- KEYS   own, meta, bitmap of the range, buckets of the range from the first that is left
-- ARGV   identity, range, first bucket of these, 1 if these are the last ones
-- Return OK: these are deleted  |  LIVE: the range is needed, or another is the oldest, or the place is another  |  MODEL  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local meta = redis.call('HMGET', KEYS[2], 'floor', 'window', 'oldest_range', 'expired')
if not meta[1] then return {'MODEL'} end
local range = tonumber(ARGV[2])
if meta[3] ~= ARGV[2] or (meta[4] or '0') ~= ARGV[3] then return {'LIVE'} end
if (range + 1) * tonumber(meta[2]) - 1 >= tonumber(meta[1]) then return {'LIVE'} end
-- The bitmap and the count are deleted first: without them a missing bucket is no damage.
redis.call('UNLINK', KEYS[3])
redis.call('HDEL', KEYS[2], 'ids' .. ARGV[2])
for i = 4, #KEYS do redis.call('UNLINK', KEYS[i]) end
if ARGV[4] == '1' then
  redis.call('HSET', KEYS[2], 'oldest_range', str(range + 1), 'expired', '0')
else
  redis.call('HSET', KEYS[2], 'expired', str(tonumber(ARGV[3]) + #KEYS - 3))
end
return {'OK'}
