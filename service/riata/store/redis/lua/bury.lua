#!lua flags=allow-oom
-- Delete some of the keys of a dropped model.
-- KEYS   own, dead, what to delete
-- ARGV   identity, number, its present progress, its progress afterwards; '' if nothing is left
-- Return OK  |  MOVED: its progress is another  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then return {'MOVED'} end
for i = 3, #KEYS do redis.call('UNLINK', KEYS[i]) end
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[2], ARGV[2])
else
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[4])
end
return {'OK'}
