#!lua flags=no-writes
-- The staged chunks, and the newest generation.
-- KEYS   own, meta, stage
-- ARGV   identity
-- Return OK, newest generation, "generation:index", epoch, "generation:index", epoch ...  |  MODEL  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local gen = redis.call('HGET', KEYS[2], 'gen')
if not gen then return {'MODEL'} end
local reply = {'OK', gen}
for _, part in ipairs(redis.call('HGETALL', KEYS[3])) do reply[#reply + 1] = part end
return reply
