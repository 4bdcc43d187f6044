#!lua flags=allow-oom
-- Delete remembered rows.
-- KEYS   own, meta, rows, times
-- ARGV   identity, bytes stored with each row besides its own, key, key ...
-- Return OK, how many were stored  |  MODEL  |  GONE  |  DAMAGED
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local meta = redis.call('HMGET', KEYS[2], 'remembered', 'remembered_bytes')
if not meta[1] then return {'MODEL'} end
if redis.call('HLEN', KEYS[3]) ~= tonumber(meta[1]) or redis.call('ZCARD', KEYS[4]) ~= tonumber(meta[1]) then return {'DAMAGED'} end
local count, bytes = 0, 0
for i = 3, #ARGV do
  local size = redis.call('HSTRLEN', KEYS[3], ARGV[i])
  if size > 0 then
    count = count + 1
    bytes = bytes + size - tonumber(ARGV[2])
    redis.call('HDEL', KEYS[3], ARGV[i])
    redis.call('ZREM', KEYS[4], ARGV[i])
  end
end
if count > 0 then
  redis.call('HSET', KEYS[2], 'remembered', str(tonumber(meta[1]) - count), 'remembered_bytes', str(tonumber(meta[2]) - bytes))
end
return {'OK', str(count)}
