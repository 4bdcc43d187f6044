#!lua flags=no-writes
-- The chain of a log at some events.
-- KEYS   own, meta, log
-- ARGV   identity, event, event ...
-- Return OK, for each its chain, or '' if no record ends there, or '-' if the log begins later  |  MODEL  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local meta = redis.call('HMGET', KEYS[2], 'first_seq', 'trimmed_chain')
if not meta[1] then return {'MODEL'} end
local first, reply = tonumber(meta[1]), {'OK'}
for i = 2, #ARGV do
  local seq = tonumber(ARGV[i])
  reply[i] = seq < first - 1 and '-' or chain_at(KEYS[3], seq, first, meta[2]) or ''
end
return reply
