#!lua flags=no-writes
-- The descriptions of the retained generations.
-- KEYS   own, meta, gens
-- ARGV   identity
-- Return OK, how many were committed and not dropped, generation, description, generation, description ...  |  MODEL  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local count = redis.call('HGET', KEYS[2], 'gens')
if not count then return {'MODEL'} end
local reply = {'OK', count}
for _, part in ipairs(redis.call('HGETALL', KEYS[3])) do reply[#reply + 1] = part end
return reply
