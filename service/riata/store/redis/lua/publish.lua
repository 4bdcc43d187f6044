#!lua flags=allow-oom
-- Make an edition the newest one, which followers serve.
-- KEYS   own, meta, log, gens, editions, pieces of the edition, pieces of the edition two before
-- ARGV   identity, epoch, nonce, number, applied, chain, lineage, chain before the first event, pieces, description,
--        1 if this is a retry, what to do: CHECK (write nothing, do not compare the chain), FLIP (the pieces are stored), ALL (the
--        one piece is an argument), the piece, number of the call that stored the last of the pieces
-- Return OK  |  FENCED  |  BEHIND  |  FORK  |  MISSING  |  NUMBER, newest: another edition is next  |  MODEL  |  GONE  |  DAMAGED
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local meta = redis.call('HMGET', KEYS[2], 'lineage', 'first_seq', 'trimmed_chain', 'gens', 'edition', 'edition_applied')
if not meta[1] then return {'MODEL'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
if ARGV[11] == '1' and meta[5] == ARGV[4] then
  local packed = redis.call('HGET', KEYS[5], ARGV[4])
  if packed == ARGV[10] then return {'OK'} end
end
local retained = generations_of(KEYS[4], meta[4])
if not retained then return {'DAMAGED'} end
local applied = tonumber(ARGV[5])
if ARGV[7] ~= meta[1] then return {'FORK'} end
if meta[5] ~= '0' and applied < tonumber(meta[6]) then return {'BEHIND'} end
if tonumber(meta[5]) + 1 ~= tonumber(ARGV[4]) then return {'NUMBER', meta[5]} end
if ARGV[12] == 'CHECK' then return {'OK'} end -- before the pieces are sent; to read the log takes as long as the record is long
local chain = chain_at(KEYS[3], applied, tonumber(meta[2]), meta[3])
if not chain_is(applied, ARGV[6], retained, chain, ARGV[8]) then return {'FORK'} end
if ARGV[12] == 'ALL' then
  redis.call('UNLINK', KEYS[6])
  redis.call('HSET', KEYS[6], '0', ARGV[13])
elseif redis.call('HLEN', KEYS[6]) ~= tonumber(ARGV[9]) or redis.call('HGET', KEYS[2], 'pieces') ~= ARGV[14] then
  return {'MISSING'}
end
redis.call('HSET', KEYS[5], ARGV[4], ARGV[10])
redis.call('HDEL', KEYS[5], str(tonumber(ARGV[4]) - 2))
redis.call('UNLINK', KEYS[7])
redis.call('HSET', KEYS[2], 'edition', ARGV[4], 'edition_applied', ARGV[5])
return {'OK'}
