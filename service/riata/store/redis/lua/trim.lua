#!lua flags=allow-oom
-- Delete generations that the caller chose, and events that no generation needs which holds the log back. The bound of events is
-- computed here from the stored data, as in retention.py: those that clients caused, and those older than the oldest of the newest,
-- do not count.
-- KEYS   own, meta, log, gens, stage; chunks of each generation, committed or staged, that goes
-- ARGV   identity, epoch, nonce, the generations that the caller chose from, the oldest of the newest, fewest verified generations,
--        events to keep, most records to drop; then the numbers of the generations whose chunks are in KEYS
-- Return OK, events dropped  |  GENERATIONS: these are not the stored ones, list them again  |  FENCED  |  MODEL  |  GONE  |  DAMAGED
local STEPS_MAX = 64
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
local meta = redis.call('HMGET', KEYS[2], 'seq', 'first_seq', 'gens', 'promotions')
if not meta[1] then return {'MODEL'} end
local retained = generations_of(KEYS[4], meta[3])
if not retained then return {'DAMAGED'} end
local chunks_of = {}
for i = 9, #ARGV do chunks_of[tonumber(ARGV[i])] = KEYS[6 + i - 9] end
local oldest, fewest = tonumber(ARGV[5]), tonumber(ARGV[6])
local seen, kept, gone = {}, {}, {}
for _, one in ipairs(retained) do
  seen[#seen + 1] = str(one.gen) .. (one.verified and '+' or '-')
  if chunks_of[one.gen] then gone[#gone + 1] = one.gen else kept[#kept + 1] = one end
end
if table.concat(seen) ~= ARGV[4] then return {'GENERATIONS'} end
local loose = {}
for _, at in ipairs(redis.call('HKEYS', KEYS[5])) do
  local gen = tonumber(string.match(at, '^%d+'))
  if gen < oldest then
    if not chunks_of[gen] then return {'GENERATIONS'} end
    loose[#loose + 1] = at
    gone[#gone + 1] = gen
  end
end
-- The writes begin here.
for _, at in ipairs(loose) do redis.call('HDEL', KEYS[5], at) end
for _, gen in ipairs(gone) do
  redis.call('HDEL', KEYS[4], str(gen))
  redis.call('UNLINK', chunks_of[gen])
end
if #gone > 0 then redis.call('HSET', KEYS[2], 'gens', str(#kept)) end
local seq, first = tonumber(meta[1]), tonumber(meta[2])
local bound = seq - math.max(tonumber(ARGV[7]), 0)
local verified, held = 0, seq
for _, one in ipairs(kept) do
  if one.gen >= oldest and not one.info.cause then
    held = math.min(held, one.applied)
    if one.verified then
      verified = verified + 1
      bound = math.min(bound, one.applied)
    end
  end
end
while true do -- replayed from before a promotion, what is after `through` is learnt again
  local from, lower = held, bound
  for _, one in ipairs(kept) do
    if one.applied >= bound then from = math.min(from, one.applied) end
  end
  for event, through in string.gmatch(meta[4] or '', '(%d+) (%d+) ') do
    if tonumber(event) > from then lower = math.min(lower, tonumber(through)) end
  end
  if lower == bound then break end
  bound = lower
end
if verified < fewest then bound = 0 end
-- A record has at least one event, so n events are at most n records.
local start, left = first, tonumber(ARGV[8])
for _ = 1, STEPS_MAX do
  local to = math.min(bound, first - 1 + left)
  if left < 1 or to < first then break end
  local last = redis.call('XREVRANGE', KEYS[3], str(to) .. '-0', '-', 'COUNT', 1)[1]
  if not last then break end
  local at, chain = tonumber(string.match(last[1], '^%d+')), field(last[2], 'chain')
  if at < first or not chain then break end
  left = left - redis.call('XTRIM', KEYS[3], 'MINID', '=', str(at + 1) .. '-0')
  first = at + 1
  redis.call('HSET', KEYS[2], 'first_seq', str(first), 'trimmed_chain', chain)
end
if meta[4] and first > start then
  local promotions = ''
  for event, through in string.gmatch(meta[4], '(%d+) (%d+) ') do
    if tonumber(event) >= first then promotions = promotions .. event .. ' ' .. through .. ' ' end
  end
  redis.call('HSET', KEYS[2], 'promotions', promotions)
end
return {'OK', str(first - start)}
