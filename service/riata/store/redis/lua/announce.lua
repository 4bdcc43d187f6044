#!lua flags=allow-oom
-- Note that a process runs and what it says of itself; list all that do.
-- KEYS   own, processes
-- ARGV   identity, host, time in ms after which the note lapses, what it says
-- Return OK, then of each process its host, the ms since its note, and what it says  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local now = now_ms()
redis.call('HSET', KEYS[2], ARGV[2], str(now) .. ' ' .. str(now + tonumber(ARGV[3])) .. ' ' .. ARGV[4])
local flat = redis.call('HGETALL', KEYS[2])
local found = {'OK'}
for i = 1, #flat, 2 do
  local noted, lapses, said = string.match(flat[i + 1], '^(%d+) (%d+) (.*)$')
  if not noted or tonumber(lapses) <= now then
    redis.call('HDEL', KEYS[2], flat[i])
  else
    found[#found + 1] = {flat[i], str(math.max(0, now - tonumber(noted))), said}
  end
end
return found
