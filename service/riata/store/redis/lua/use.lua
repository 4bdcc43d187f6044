#!lua flags=allow-oom
-- Note what one process has used of the quotas of keys on a day; list what all have.
-- KEYS   own, used
-- ARGV   identity, day, then for each key a field "day key process" and a value "events bytes"
-- Return OK, then field and value of everything of that day  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local day = tonumber(ARGV[2])
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
local flat = redis.call('HGETALL', KEYS[2])
local found = {'OK'}
for i = 1, #flat, 2 do
  local of = tonumber(string.match(flat[i], '^(%d+) '))
  if of == day then
    found[#found + 1] = {flat[i], flat[i + 1]}
  elseif not of or of < day - 1 then -- the clock of another process may still be in the day before
    redis.call('HDEL', KEYS[2], flat[i])
  end
end
return found
