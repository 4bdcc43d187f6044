#!lua flags=no-writes
-- Feature names as the requests sent them.
-- KEYS   own, meta, names
-- ARGV   identity, after, most requests at once
-- Return OK, how many requests had names, how many of these are returned, last, digest, names, last, digest, names ...
--        | MODEL  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local count = redis.call('HGET', KEYS[2], 'names')
if not count then return {'MODEL'} end
local reply = {'OK', count, str(redis.call('XLEN', KEYS[3]))}
for _, entry in ipairs(redis.call('XRANGE', KEYS[3], '(' .. ARGV[2] .. '-0', '+', 'COUNT', ARGV[3])) do
  reply[#reply + 1] = string.match(entry[1], '^%d+')
  reply[#reply + 1] = field(entry[2], 'digest') or ''
  reply[#reply + 1] = field(entry[2], 'names') or ''
end
return reply
