#!lua flags=allow-oom
-- Become the owner: epoch + 1.
-- KEYS   own
-- ARGV   identity, nonce, algorithm version, host, now in unix ms (for people), ttl in ms or '', 1 if this is a retry
-- Return OK, epoch  |  OWNED, host, ms left  |  OLDER, version of the last owner  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local own = redis.call('HMGET', KEYS[1], 'epoch', 'nonce', 'deadline_ms', 'algo_version', 'host')
local now = now_ms()
local held = own[2] ~= '' and (own[3] == '' or tonumber(own[3]) > now)
local deadline = ARGV[6] == '' and '' or str(now + tonumber(ARGV[6]))
if held and own[2] == ARGV[2] and (ARGV[6] ~= '' or ARGV[7] == '1') then
  redis.call('HSET', KEYS[1], 'deadline_ms', deadline)
  return {'OK', own[1]}
end
if held and ARGV[6] ~= '' then
  return {'OWNED', own[5], own[3] == '' and '9007199254740992' or str(tonumber(own[3]) - now)}
end
if tonumber(ARGV[3]) < tonumber(own[4]) then return {'OLDER', own[4]} end
local epoch = str(tonumber(own[1]) + 1)
redis.call('HSET', KEYS[1], 'epoch', epoch, 'nonce', ARGV[2], 'deadline_ms', deadline, 'algo_version', ARGV[3],
  'host', ARGV[4], 'acquired_ms', ARGV[5])
return {'OK', epoch}
