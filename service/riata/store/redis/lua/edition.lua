#!lua flags=no-writes
-- The description of the newest edition.
-- KEYS   own, meta, editions
-- ARGV   identity
-- Return OK, number (0 for none), description ('' if it is missing)  |  MODEL  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local number = redis.call('HGET', KEYS[2], 'edition')
if not number then return {'MODEL'} end
return {'OK', number, redis.call('HGET', KEYS[3], number) or ''}
