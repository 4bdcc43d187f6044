#!lua flags=no-writes
-- Expired remembered rows, the earliest first.
-- KEYS   own, meta, rows, times
-- ARGV   identity, now in unix ms, most rows
-- Return OK, key, row, key, row ...  |  MODEL  |  GONE  |  DAMAGED
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local count = redis.call('HGET', KEYS[2], 'remembered')
if not count then return {'MODEL'} end
if redis.call('HLEN', KEYS[3]) ~= tonumber(count) or redis.call('ZCARD', KEYS[4]) ~= tonumber(count) then return {'DAMAGED'} end
local reply = {'OK'}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', ARGV[2], 'LIMIT', 0, ARGV[3])) do
  reply[#reply + 1] = key
  reply[#reply + 1] = redis.call('HGET', KEYS[3], key) or ''
end
return reply
