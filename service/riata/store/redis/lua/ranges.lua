#!lua flags=no-writes
-- What can expire: ids of models, and keys of dropped models.
-- KEYS   own, dead, meta of each model
-- ARGV   identity
-- Return OK, dead (number, "bits oldest_range newest_range progress" or "lost", ...), then for each model floor, window, bits,
--        oldest_range, expired ('' if the model does not exist)  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local reply = {'OK', redis.call('HGETALL', KEYS[2])}
for i = 3, #KEYS do
  local got = redis.call('HMGET', KEYS[i], 'floor', 'window', 'bits', 'oldest_range', 'expired')
  for j = 1, 5 do reply[#reply + 1] = got[j] or '' end
end
return reply
