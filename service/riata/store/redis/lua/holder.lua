#!lua flags=no-writes
-- Who owns the store.
-- KEYS   own
-- ARGV   identity
-- Return OK, epoch, host, ms left of the lease, version of its algorithms  |  NOBODY  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local own = redis.call('HMGET', KEYS[1], 'epoch', 'nonce', 'deadline_ms', 'host', 'algo_version')
if own[2] == '' then return {'NOBODY'} end
if own[3] == '' then return {'OK', own[1], own[4], '9007199254740992', own[5]} end
local left = tonumber(own[3]) - now_ms()
if left <= 0 then return {'NOBODY'} end
return {'OK', own[1], own[4], str(left), own[5]}
