#!lua flags=allow-oom
-- Remove a model: its number is dead from now on, and `bury` deletes its keys.
-- KEYS   own, models, dead, meta
-- ARGV   identity, epoch, nonce, name, number, 1 if this is a retry
-- Return OK  |  FENCED  |  MODEL: no such model, or another number  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
if redis.call('HGET', KEYS[2], ARGV[4]) ~= ARGV[5] then
  return {ARGV[6] == '1' and redis.call('HEXISTS', KEYS[3], ARGV[5]) == 1 and 'OK' or 'MODEL'}
end
local meta = redis.call('HMGET', KEYS[4], 'bits', 'seq', 'window', 'oldest_range')
local state = redis.call('HGET', KEYS[2], '')
local version, last = string.match(state, '^(%d+) (%d+)$')
local left = 'lost'
if meta[1] then
  left = meta[1] .. ' ' .. meta[4] .. ' ' .. str(math.floor(tonumber(meta[2]) / tonumber(meta[3]))) .. ' 0'
end
redis.call('HDEL', KEYS[2], ARGV[4])
redis.call('HSET', KEYS[2], '', str(tonumber(version) + 1) .. ' ' .. last)
redis.call('HSET', KEYS[3], ARGV[5], left)
redis.call('UNLINK', KEYS[4])
return {'OK'}
