#!lua
-- Store the features of predictions until they are deleted.
-- KEYS   own, meta, rows, times
-- ARGV   identity, most bytes, bytes stored with each row besides its own; then for each row: key, due_ms, row with its
--        stored prefix. Keys differ from one another
-- Return OK  |  FULL  |  MODEL  |  GONE  |  DAMAGED
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local meta = redis.call('HMGET', KEYS[2], 'remembered', 'remembered_bytes')
if not meta[1] then return {'MODEL'} end
if redis.call('HLEN', KEYS[3]) ~= tonumber(meta[1]) or redis.call('ZCARD', KEYS[4]) ~= tonumber(meta[1]) then return {'DAMAGED'} end
local beside, bytes, count = tonumber(ARGV[3]), tonumber(meta[2]), tonumber(meta[1])
for i = 4, #ARGV, 3 do
  local kept = redis.call('HSTRLEN', KEYS[3], ARGV[i])
  bytes = bytes + #ARGV[i + 2] - beside
  if kept > 0 then bytes = bytes - kept + beside else count = count + 1 end
end
if bytes > tonumber(ARGV[2]) then return {'FULL'} end
for i = 4, #ARGV, 3 do
  redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 2])
  redis.call('ZADD', KEYS[4], ARGV[i + 1], ARGV[i])
end
redis.call('HSET', KEYS[2], 'remembered', str(count), 'remembered_bytes', str(bytes))
return {'OK'}
