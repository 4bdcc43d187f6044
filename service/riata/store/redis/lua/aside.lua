#!lua flags=allow-oom
-- Set a model aside: it leaves the list of models, and is the only one in a list of its own. Its number and keys stay; only `meta`
-- is renamed, so that a process that still knows the number appends nothing.
-- KEYS   own, models, meta, the list of its own, meta of a model that is set aside
-- ARGV   identity, epoch, nonce, name, number
-- Return OK  |  FENCED  |  MODEL: no such model, or another number  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
if redis.call('HGET', KEYS[4], ARGV[4]) == ARGV[5] then return {'OK'} end -- this is a retry
if redis.call('HGET', KEYS[2], ARGV[4]) ~= ARGV[5] or redis.call('EXISTS', KEYS[3]) == 0 then return {'MODEL'} end
local version, last = string.match(redis.call('HGET', KEYS[2], ''), '^(%d+) (%d+)$')
redis.call('RENAME', KEYS[3], KEYS[5])
redis.call('HDEL', KEYS[2], ARGV[4])
redis.call('HSET', KEYS[2], '', str(tonumber(version) + 1) .. ' ' .. last)
redis.call('HSET', KEYS[4], '', '1 ' .. ARGV[5], ARGV[4], ARGV[5])
return {'OK'}
