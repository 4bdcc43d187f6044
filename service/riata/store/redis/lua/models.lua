#!lua flags=no-writes
-- Every model with the number of its incarnation.
-- KEYS   own, models
-- ARGV   identity
-- Return OK, version and last number as "v n", name, number, name, number ...  |  GONE  |  DAMAGED
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local flat = redis.call('HGETALL', KEYS[2])
local reply = {'OK', false}
for i = 1, #flat, 2 do
  if flat[i] == '' then
    reply[2] = flat[i + 1]
  else
    reply[#reply + 1] = flat[i]
    reply[#reply + 1] = flat[i + 1]
  end
end
if not reply[2] then return {'DAMAGED'} end
return reply
