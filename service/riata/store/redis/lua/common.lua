-- What every script begins with; the loader puts it after the first line.
-- Numbers are written in decimal, as Lua would otherwise write large ones with an exponent.
local function str(number) return string.format('%.0f', number) end

-- Whether `own` is still that of the store this caller was opened on: false after FLUSHALL, or another store in its place.
local function same_store(own, identity) return redis.call('HGET', own, 'store') == identity end

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Equality of both parts, and the lease runs still.
local function owns(own, epoch, nonce)
  local held = redis.call('HMGET', own, 'epoch', 'nonce', 'deadline_ms')
  if held[1] ~= epoch or held[2] ~= nonce or nonce == '' then return false end
  return held[3] == '' or tonumber(held[3]) > now_ms()
end

local function field(entry, name)
  for i = 1, #entry, 2 do
    if entry[i] == name then return entry[i + 1] end
  end
  return false
end

-- Chain of the log at event `seq`; false where no record ends there.
local function chain_at(log, seq, first_seq, trimmed_chain)
  if seq == first_seq - 1 then return trimmed_chain end
  local found = redis.call('XRANGE', log, str(seq) .. '-0', str(seq) .. '-0')
  return found[1] and field(found[1][2], 'chain') or false
end

-- A stored description: one flag, 32 characters of digest (of the client's), JSON.
local function described(packed) return cjson.decode(string.sub(packed, 34)) end

local function hex(bytes)
  return (string.gsub(bytes, '.', function(c) return string.format('%02x', string.byte(c)) end))
end

-- The retained generations, newest first; nil where fewer are there than were committed.
local function generations_of(gens, count)
  local flat = redis.call('HGETALL', gens)
  local all = {}
  for i = 1, #flat, 2 do
    local one = described(flat[i + 1])
    one.verified = string.sub(flat[i + 1], 1, 1) == '1'
    all[#all + 1] = one
  end
  table.sort(all, function(a, b) return a.gen > b.gen end)
  if #all ~= tonumber(count) then return nil end
  return all
end

-- Whether all that is known of the log at event `applied`, and something must be, carries the chain `claimed`.
local function chain_is(applied, claimed, retained, chain, first_chain)
  local known = {}
  for _, one in ipairs(retained) do
    if one.applied == applied then known[#known + 1] = one.chain end
  end
  if applied == 0 then known[#known + 1] = hex(first_chain) end
  if chain then known[#known + 1] = hex(chain) end
  for _, other in ipairs(known) do
    if other ~= hex(claimed) then return false end
  end
  return #known > 0
end

-- Where numbered calls of the owner stand, if this one was overtaken on its way: it must not undo what came after it.
local function overtaken(meta, kind, number, again)
  local last = tonumber(redis.call('HGET', meta, kind) or '0')
  if tonumber(number) < last or (tonumber(number) == last and again ~= '1') then return str(last) end
  return nil
end
