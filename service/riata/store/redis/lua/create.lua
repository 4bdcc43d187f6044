#!lua
-- Begin an empty log.
-- KEYS   own, models, meta of the next number
-- ARGV   identity, name, lineage, chain before the first event, most models, next number, dedupe window, bits of a
--        bucket, 1 if this is a retry
-- Return OK, number  |  EXISTS  |  TOO_MANY  |  MODELS: another number is next  |  GONE  |  DAMAGED
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local state = redis.call('HGET', KEYS[2], '')
if not state then return {'DAMAGED'} end
local there = redis.call('HGET', KEYS[2], ARGV[2])
if there then return ARGV[9] == '1' and {'EXISTS', there} or {'EXISTS'} end
if redis.call('HLEN', KEYS[2]) - 1 >= tonumber(ARGV[5]) then return {'TOO_MANY'} end
local version, last = string.match(state, '^(%d+) (%d+)$')
if str(tonumber(last) + 1) ~= ARGV[6] then return {'MODELS'} end
redis.call('HSET', KEYS[3], 'name', ARGV[2], 'lineage', ARGV[3], 'seq', '0', 'chain', ARGV[4], 'first_seq', '1',
  'trimmed_chain', ARGV[4], 'floor', '1', 'window', ARGV[7], 'bits', ARGV[8], 'names', '0', 'gen', '0', 'gen_applied', '0',
  'gens', '0', 'edition', '0', 'edition_applied', '0', 'inflight_seq', '0', 'inflight_deaths', '0', 'remembered', '0',
  'remembered_bytes', '0', 'oldest_range', '0')
redis.call('HSET', KEYS[2], ARGV[2], ARGV[6], '', str(tonumber(version) + 1) .. ' ' .. ARGV[6])
return {'OK', ARGV[6]}
