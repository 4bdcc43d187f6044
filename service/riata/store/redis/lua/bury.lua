#!lua flags=allow-oom
-- Work off what a dropped model left.
-- KEYS   own, dead, what to delete
-- ARGV   identity, number, how it stands now, how it stands afterwards; '' where nothing is left
-- Gives  OK  |  MOVED: it stands otherwise  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then return {'MOVED'} end
for i = 3, #KEYS do redis.call('UNLINK', KEYS[i]) end
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[2], ARGV[2])
else
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[4])
end
return {'OK'}
