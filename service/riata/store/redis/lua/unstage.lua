#!lua flags=allow-oom
-- Delete staged chunks that no commit can use.
-- KEYS   own, meta, stage, chunks of each generation
-- ARGV   identity, epoch, nonce, the numbers of these generations
-- Return OK, how many  |  FENCED  |  MODEL  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
local newest = redis.call('HGET', KEYS[2], 'gen')
if not newest then return {'MODEL'} end
local chunks_of = {}
for i = 4, #ARGV do chunks_of[ARGV[i]] = KEYS[i] end
local staged = redis.call('HGETALL', KEYS[3])
local dropped = 0
for i = 1, #staged, 2 do
  local gen, index = string.match(staged[i], '^(%d+):(%d+)$')
  if gen and chunks_of[gen] and (staged[i + 1] ~= ARGV[2] or tonumber(gen) <= tonumber(newest)) then
    redis.call('HDEL', KEYS[3], staged[i])
    redis.call('HDEL', chunks_of[gen], index)
    dropped = dropped + 1
  end
end
return {'OK', str(dropped)}
