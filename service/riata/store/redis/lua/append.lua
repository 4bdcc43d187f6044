#!lua
-- Append requests of one model or several, in order, up to the first whose state differs from what its sender expects.
--
-- KEYS   own, ticket; then for each request: meta, log, names; and if it has ids: the bitmap of each range it names,
--        then for each id its bucket in each of these ranges
-- ARGV   identity, number of the ticket, its lifetime in ms; then for each request:
--        kind (or 'probe': append nothing, only look up its ids), count, accepted_ms, payload, digest,
--        names (or ''), digest of the names, ranges, bits, ids, rows
--        ranges  "now last prior": the range of the events so far (seq // window), the range of the last event of this
--                request, and how many ranges before `now` are searched (0 or 1); KEYS are in the order prior, now, last
--                (last only if it differs from now)
--        ids     16 bytes each; the sender expects all of them to be new
--        rows    for each id 4 bytes: its position in the request from 1, big endian; 16 bytes: digest of its content. Of a
--                restore that may undo events: the event after which the state was, and the chain there in hexadecimal
-- Return OK, appended, reason, known, heads
--        appended  for each request that was appended: seq before, chain before, chain
--        reason    why the next one was not: '' if all were, KNOWN, RANGE, MODEL, FORK (the log has entries beyond the head)
--        known     of this request and the rest: number of the request from 0, number of the id from 0, seq, content; flat
--        heads     of the models of these: number of the request, seq, lowest seq whose ids count as known; flat
--        | STALE: a later ticket was served  |  NOTICKET: the ticket of this source has expired  |  GONE
--        | DAMAGED: a bucket that was written is missing
--
-- The same ticket gives the same answer. A bucket has the field '' from its creation, and its bit in the bitmap of its range,
-- and the model counts the ids of a range: so a missing bucket or bitmap is not taken for an empty one.
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
local ticket = redis.call('GET', KEYS[2])
if not ticket then return {'NOTICKET'} end
ticket = cmsgpack.unpack(ticket)
if ticket[1] > tonumber(ARGV[2]) then return {'STALE'} end
if ticket[1] == tonumber(ARGV[2]) then return ticket[2] end

local function number_of(bytes) -- of 8, big endian
  local a, b, c, d, e, f, g, h = string.byte(bytes, 1, 8)
  return ((((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g) * 256 + h
end

local function bucket_of(ids, i, bits)
  local a, b, c, d = string.byte(ids, 16 * i + 1, 16 * i + 4)
  return math.floor((((a * 256 + b) * 256 + c) * 256 + d) / 2 ^ (32 - bits))
end

-- The positions of a request in KEYS and ARGV.
local requests = {}
local key, arg = 3, 4
while arg <= #ARGV do
  local now, last, prior = string.match(ARGV[arg + 7], '^(%d+) (%d+) (%d+)$')
  local request = {key = key, arg = arg, now = tonumber(now), last = tonumber(last), prior = tonumber(prior)}
  request.ids = #ARGV[arg + 9] / 16
  request.ranges = request.ids > 0 and request.prior + (request.last > request.now and 2 or 1) or 0
  key = key + 3 + request.ranges * (1 + request.ids)
  arg = arg + 11
  requests[#requests + 1] = request
end

-- The spans of events that count, newest first; nil if no restore undid any. As in store/undoing.py.
-- restores: event and the event returned to, of each restore, newest first
local function counted(restores, last)
  if not restores or restores == '' then return nil end
  local spans = {}
  for event, back in string.gmatch(restores, '(%d+) (%d+) ') do
    if tonumber(event) <= last then
      spans[#spans + 1] = {tonumber(event) + 1, last}
      last = tonumber(back)
    end
  end
  spans[#spans + 1] = {1, last}
  return spans
end

-- The event of an entry that counts, at `floor` or above, and the digest of its content; nil if none does.
local function counting(entry, spans, floor)
  for at = 1, #entry, 24 do
    local seq = number_of(string.sub(entry, at, at + 7))
    local counts = not spans
    for _, span in ipairs(spans or {}) do counts = counts or (span[1] <= seq and seq <= span[2]) end
    if counts and seq >= floor then return seq, string.sub(entry, at + 8, at + 23) end
  end
end

local damaged = false
-- Collect the ids of `request` that an event at `floor` or above has that counts.
local function collect(request, number, floor, spans, known)
  local ids, bits = ARGV[request.arg + 9], tonumber(ARGV[request.arg + 8])
  local first = request.key + 3
  for i = 0, request.ids - 1 do
    local bucket = bucket_of(ids, i, bits)
    local id = string.sub(ids, 16 * i + 1, 16 * i + 16)
    for r = request.ranges - 1, 0, -1 do -- the newest range first
      if redis.call('GETBIT', KEYS[first + r], bucket) == 1 then
        local got = redis.call('HMGET', KEYS[first + request.ranges + i * request.ranges + r], id, '')
        if not got[2] then damaged = true end
        local seq, content = counting(got[1] or '', spans, floor)
        if seq then
          known[#known + 1] = number
          known[#known + 1] = i
          known[#known + 1] = str(seq)
          known[#known + 1] = content
          break
        end
      end
    end
  end
end

local appended, known, reason = {}, {}, ''
local done = 0
for number, request in ipairs(requests) do
  local k, a = request.key, request.arg
  local range = request.now - request.prior
  local meta = redis.call('HMGET', KEYS[k], 'seq', 'chain', 'floor', 'window', 'names', 'ids' .. range, 'ids' .. range + 1,
    'ids' .. range + 2, 'promotions', 'restores')
  if not meta[1] then reason = 'MODEL' break end
  local before, count, window = tonumber(meta[1]), tonumber(ARGV[a + 1]), tonumber(meta[4])
  local last = before + count
  local floor = math.max(tonumber(meta[3]), before - window + 1)
  if request.ids > 0 then
    if math.floor(before / window) ~= request.now or math.floor(last / window) ~= request.last then reason = 'RANGE' break end
    for r = 0, request.ranges - 1 do
      local at = r == request.ranges - 1 and request.last or range + r
      local counted = at - range <= 2 and meta[6 + at - range] or false
      if counted and redis.call('EXISTS', KEYS[k + 3 + r]) == 0 then damaged = true end
    end
    collect(request, number - 1, floor, counted(meta[10], before), known)
    if damaged then break end
    if #known > 0 or ARGV[a] == 'probe' then reason = 'KNOWN' break end
  end
  if #redis.call('XRANGE', KEYS[k + 1], '(' .. meta[1] .. '-0', '+', 'COUNT', 1) > 0 then reason = 'FORK' break end
  local chain = redis.sha1hex(meta[2] .. ARGV[a + 4])
  chain = struct.pack('>I4I4I4I4I4', tonumber(string.sub(chain, 1, 8), 16), tonumber(string.sub(chain, 9, 16), 16),
    tonumber(string.sub(chain, 17, 24), 16), tonumber(string.sub(chain, 25, 32), 16), tonumber(string.sub(chain, 33), 16))
  local end_seq = str(last)
  -- The first write of this request: if it is refused, nothing of the request was written.
  local added = redis.pcall('XADD', KEYS[k + 1], end_seq .. '-0', 'kind', ARGV[a], 'count', ARGV[a + 1], 'accepted_ms',
    ARGV[a + 2], 'digest', ARGV[a + 4], 'chain', chain, 'payload', ARGV[a + 3])
  if type(added) == 'table' and added.err then
    if done == 0 and not string.find(added.err, 'equal or smaller') then return redis.error_reply(added.err) end
    reason = 'FORK'
    break
  end
  local changed = {'seq', end_seq, 'chain', chain}
  if ARGV[a] == 'observe' and floor > tonumber(meta[3]) then
    changed[#changed + 1] = 'floor'
    changed[#changed + 1] = str(floor)
  end
  if ARGV[a] == 'repair' and string.find(ARGV[a + 3], '"action":"accept_loss"', 1, true) then
    changed[#changed + 1] = 'accepted' -- kept after the record is trimmed, for processes that knew the missing events
    changed[#changed + 1] = ARGV[a + 3]
  end
  if ARGV[a] == 'restore' and string.byte(ARGV[a + 3]) == 2 then -- a promotion: its event, and through which its state learnt
    changed[#changed + 1] = 'promotions'
    changed[#changed + 1] = end_seq .. ' ' .. str(number_of(string.reverse(string.sub(ARGV[a + 3], 9, 16)))) .. ' ' .. (meta[9] or '')
  end
  if ARGV[a] == 'restore' and ARGV[a + 10] ~= '' then
    local back, claimed = string.match(ARGV[a + 10], '^(%d+) (%x*)$')
    back = tonumber(back)
    if back <= before then -- a state ahead of the log undoes no event
      local entry = back > 0 and redis.call('XRANGE', KEYS[k + 1], str(back) .. '-0', '+', 'COUNT', 1)[1]
      local held = entry and tonumber(string.match(entry[1], '^%d+')) - tonumber(field(entry[2], 'count')) < back
      if held and field(entry[2], 'chain') ~= string.gsub(claimed, '%x%x', function(pair) return string.char(tonumber(pair, 16)) end)
      then
        back = 0 -- after a rollback, the same number is another event
      end
      local restores = end_seq .. ' ' .. str(back) .. ' '
      for event, to in string.gmatch(meta[10] or '', '(%d+) (%d+) ') do
        if tonumber(event) >= tonumber(meta[3]) then restores = restores .. event .. ' ' .. to .. ' ' end
      end
      changed[#changed + 1] = 'restores'
      changed[#changed + 1] = restores
    end
  end
  if ARGV[a + 5] ~= '' then
    redis.call('XADD', KEYS[k + 2], end_seq .. '-0', 'digest', ARGV[a + 6], 'names', ARGV[a + 5])
    changed[#changed + 1] = 'names'
    changed[#changed + 1] = str(tonumber(meta[5]) + 1)
  end
  redis.call('HSET', KEYS[k], unpack(changed))
  if request.ids > 0 then
    local ids, rows, bits = ARGV[a + 9], ARGV[a + 10], tonumber(ARGV[a + 8])
    local r = request.ranges - 1 -- all ids of a request are stored in the range of its last event
    for i = 0, request.ids - 1 do
      local p, q, s, t = string.byte(rows, 20 * i + 1, 20 * i + 4)
      local seq = before + ((p * 256 + q) * 256 + s) * 256 + t
      local content = struct.pack('>I8', seq) .. string.sub(rows, 20 * i + 5, 20 * i + 20)
      local bucket = KEYS[k + 3 + request.ranges + i * request.ranges + r]
      if redis.call('SETBIT', KEYS[k + 3 + r], bucket_of(ids, i, bits), 1) == 0 then redis.call('HSET', bucket, '', '') end
      local id = string.sub(ids, 16 * i + 1, 16 * i + 16)
      if meta[10] and meta[10] ~= '' then content = content .. (redis.call('HGET', bucket, id) or '') end
      redis.call('HSET', bucket, id, content)
    end
    redis.call('HINCRBY', KEYS[k], 'ids' .. request.last, request.ids)
  end
  done = number
  appended[#appended + 1] = meta[1]
  appended[#appended + 1] = meta[2]
  appended[#appended + 1] = chain
end
local heads = {}
if reason ~= '' and not damaged then -- return the known ids of the remaining requests too
  for number = done + 1, #requests do
    local meta = redis.call('HMGET', KEYS[requests[number].key], 'seq', 'floor', 'window', 'restores')
    if meta[1] then -- the rest of a dropped model belongs to no model
      local floor = str(math.max(tonumber(meta[2]), tonumber(meta[1]) - tonumber(meta[3]) + 1))
      heads[#heads + 1] = str(number - 1)
      heads[#heads + 1] = meta[1]
      heads[#heads + 1] = floor
      if number > done + 1 or reason ~= 'KNOWN' then
        collect(requests[number], number - 1, tonumber(floor), counted(meta[4], tonumber(meta[1])), known)
      end
    end
  end
end
if damaged and done == 0 then return {'DAMAGED'} end
local reply = {'OK', appended, damaged and 'DAMAGED' or reason, known, heads}
if done > 0 then redis.call('SET', KEYS[2], cmsgpack.pack({tonumber(ARGV[2]), reply}), 'PX', ARGV[3]) end
return reply
