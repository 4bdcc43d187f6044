#!lua flags=no-writes
-- Chunks of a generation, or pieces of an edition.
-- KEYS   own, chunks
-- ARGV   identity, first index, how many
-- Return OK, chunk with its digest, ...; '' for a missing one  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local reply = {'OK'}
for i = tonumber(ARGV[2]), tonumber(ARGV[2]) + tonumber(ARGV[3]) - 1 do
  reply[#reply + 1] = redis.call('HGET', KEYS[2], str(i)) or ''
end
return reply
