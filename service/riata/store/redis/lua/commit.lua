#!lua flags=allow-oom
-- Make staged chunks the newest generation.
-- KEYS   own, meta, log, gens, stage, chunks of the generation
-- ARGV   identity, epoch, nonce, base generation, generation, parent, applied, chain, lineage, chain before the first event,
--        chunks, bytes, bytes stored with each chunk besides its own, description,
--        number of the call that staged the last of the chunks, 1 if this is a retry
-- Return OK  |  FENCED  |  CONFLICT  |  BEHIND  |  FORK  |  MISSING  |  MODEL  |  GONE  |  DAMAGED
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local meta = redis.call('HMGET', KEYS[2], 'lineage', 'first_seq', 'trimmed_chain', 'gen', 'gens')
if not meta[1] then return {'MODEL'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
local retained = generations_of(KEYS[4], meta[5])
if not retained then return {'DAMAGED'} end
local newest = retained[1]
local gen, applied, chunks = tonumber(ARGV[5]), tonumber(ARGV[7]), tonumber(ARGV[11])
if ARGV[16] == '1' and newest and newest.gen == gen and string.sub(redis.call('HGET', KEYS[4], ARGV[5]), 2) == string.sub(ARGV[14], 2)
then
  return {'OK'}
end
local newest_gen = newest and newest.gen or 0
if tonumber(ARGV[4]) ~= newest_gen or gen ~= newest_gen + 1 or tonumber(ARGV[6]) ~= newest_gen then return {'CONFLICT'} end
if ARGV[9] ~= meta[1] then return {'FORK'} end
if newest and applied < newest.applied then return {'BEHIND'} end
local chain = chain_at(KEYS[3], applied, tonumber(meta[2]), meta[3])
if not chain_is(applied, ARGV[8], retained, chain, ARGV[10]) then return {'FORK'} end
-- Chunks staged since by a later attempt, or lost with the end of the append-only file, are not those of this commit.
if redis.call('HGET', KEYS[2], 'staged') ~= ARGV[15] then return {'MISSING'} end
local total = 0
for i = 0, chunks - 1 do
  local size = redis.call('HSTRLEN', KEYS[6], i)
  if size == 0 or redis.call('HGET', KEYS[5], ARGV[5] .. ':' .. i) ~= ARGV[2] then return {'MISSING'} end
  total = total + size - tonumber(ARGV[13])
end
if total ~= tonumber(ARGV[12]) then return {'MISSING'} end
for _, index in ipairs(redis.call('HKEYS', KEYS[6])) do
  redis.call('HDEL', KEYS[5], ARGV[5] .. ':' .. index)
  if tonumber(index) >= chunks then redis.call('HDEL', KEYS[6], index) end
end
redis.call('HSET', KEYS[4], ARGV[5], ARGV[14])
redis.call('HSET', KEYS[2], 'gen', ARGV[5], 'gen_applied', ARGV[7], 'gens', str(#retained + 1))
return {'OK'}
