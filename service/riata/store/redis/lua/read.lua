#!lua flags=no-writes
-- Records that end after an event, up to about a given number of bytes of payload.
-- KEYS   own, meta, log
-- ARGV   identity, after, most bytes (at least one record is given), 1 to return the record before too
-- Return OK, head (lineage, seq, chain, first_seq, floor), start (seq, chain; of the record that ends at or before `after`,
--        otherwise of the last trimmed record), 1 if the log ends with these, record, record ...  |  MODEL  |  GONE
--        record: last, kind, count, accepted_ms, digest, chain, payload; '' for a missing part
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local meta = redis.call('HMGET', KEYS[2], 'lineage', 'seq', 'chain', 'first_seq', 'floor', 'trimmed_chain')
if not meta[1] then return {'MODEL'} end
local function record(entry)
  local at = entry[2]
  return {string.match(entry[1], '^%d+'), field(at, 'kind') or '', field(at, 'count') or '', field(at, 'accepted_ms') or '',
    field(at, 'digest') or '', field(at, 'chain') or '', field(at, 'payload') or ''}
end
local start = {str(tonumber(meta[4]) - 1), meta[6]}
if ARGV[4] == '1' then
  local before = redis.call('XREVRANGE', KEYS[3], ARGV[2] .. '-0', '-', 'COUNT', 1)
  if before[1] then start = {string.match(before[1][1], '^%d+'), field(before[1][2], 'chain') or ''} end
end
local reply = {'OK', {meta[1], meta[2], meta[3], meta[4], meta[5]}, start, '0'}
local from, most, size, count = '(' .. ARGV[2] .. '-0', tonumber(ARGV[3]), 0, 0
local wanted = 1
while true do
  local entries = redis.call('XRANGE', KEYS[3], from, '+', 'COUNT', wanted)
  for i = 1, #entries do
    reply[#reply + 1] = record(entries[i])
    size = size + #reply[#reply][7]
    count = count + 1
    from = '(' .. entries[i][1]
  end
  if #entries < wanted then
    reply[4] = '1'
    break
  end
  if size >= most then break end
  -- As many as fit if they have the mean size of those read so far.
  wanted = math.max(1, math.min(256, math.floor((most - size) / (size / count + 1))))
end
return reply
