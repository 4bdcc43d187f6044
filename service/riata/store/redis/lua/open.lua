#!lua flags=allow-oom
-- Open the store, or create an empty one.
-- KEYS   own, models, ticket
-- ARGV   identity to give a new store (16 bytes), format this program writes, lifetime of a ticket in ms
-- Return OK, identity, format  |  DAMAGED: one of `own` and `models` exists, the other does not
local own = redis.call('HMGET', KEYS[1], 'store', 'format')
local models = redis.call('HEXISTS', KEYS[2], '')
if (own[1] and 1 or 0) ~= models then return {'DAMAGED'} end
if not own[1] then
  own = {ARGV[1], ARGV[2]}
  redis.call('HSET', KEYS[1], 'store', ARGV[1], 'format', ARGV[2], 'epoch', '0', 'nonce', '', 'deadline_ms', '',
    'algo_version', '0', 'host', '', 'acquired_ms', '0')
  redis.call('HSET', KEYS[2], '', '0 0')
end
if own[2] == ARGV[2] then redis.call('SET', KEYS[3], cmsgpack.pack({0, {}}), 'PX', ARGV[3]) end
return {'OK', own[1], own[2]}
