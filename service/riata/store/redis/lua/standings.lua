#!lua flags=no-writes
-- The state of models: log, newest generation, newest edition.
-- KEYS   own, models, meta of each
-- ARGV   identity, version as the caller knows it; '' for any
-- Return OK, one list for each meta (lineage, seq, chain, first_seq, floor, window, gen, gen_applied, edition, edition_applied,
--        inflight_seq, inflight_deaths, bits, accepted; empty if the model does not exist)  |  MODELS: the version has changed
--        |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[2], '') ~= ARGV[2] then return {'MODELS'} end
local reply = {'OK'}
for i = 3, #KEYS do
  local got = redis.call('HMGET', KEYS[i], 'lineage', 'seq', 'chain', 'first_seq', 'floor', 'window', 'gen', 'gen_applied',
    'edition', 'edition_applied', 'inflight_seq', 'inflight_deaths', 'bits', 'accepted')
  reply[#reply + 1] = got[1] and got or {}
end
return reply
