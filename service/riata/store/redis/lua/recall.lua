#!lua flags=no-writes
-- Remembered rows by key.
-- KEYS   own, meta, rows, times
-- ARGV   identity, key, key ...
-- Return OK, how many are stored, their bytes, row, row ...; '' for a row that is not stored  |  MODEL  |  GONE  |  DAMAGED
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local meta = redis.call('HMGET', KEYS[2], 'remembered', 'remembered_bytes')
if not meta[1] then return {'MODEL'} end
if redis.call('HLEN', KEYS[3]) ~= tonumber(meta[1]) then return {'DAMAGED'} end
local reply = {'OK', meta[1], meta[2]}
for i = 2, #ARGV do reply[#reply + 1] = redis.call('HGET', KEYS[3], ARGV[i]) or '' end
return reply
