-- The beginning of every script; the loader inserts it after the first line.
-- Writes numbers in decimal; Lua would write large ones with an exponent.
local function str(number) return string.format('%.0f', number) end

-- Whether `own` is still that of the store the caller opened: false after FLUSHALL, or if the store was replaced.
local function same_store(own, identity) return redis.call('HGET', own, 'store') == identity end

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Whether epoch and nonce are equal. An owner whose lease has expired stays the owner until another process takes the store.
local function owns(own, epoch, nonce)
  local held = redis.call('HMGET', own, 'epoch', 'nonce')
  return held[1] == epoch and held[2] == nonce and nonce ~= ''
end

local function field(entry, name)
  for i = 1, #entry, 2 do
    if entry[i] == name then return entry[i + 1] end
  end
  return false
end

-- Chain of the log at event `seq`; false if no record ends there.
local function chain_at(log, seq, first_seq, trimmed_chain)
  if seq == first_seq - 1 then return trimmed_chain end
  local found = redis.call('XRANGE', log, str(seq) .. '-0', str(seq) .. '-0')
  return found[1] and field(found[1][2], 'chain') or false
end

-- A stored description: one flag, 32 characters of the client's digest, JSON.
local function described(packed) return cjson.decode(string.sub(packed, 34)) end

local function hex(bytes)
  return (string.gsub(bytes, '.', function(c) return string.format('%02x', string.byte(c)) end))
end

-- The retained generations, newest first; nil if fewer exist than were committed.
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

-- Whether every known chain of the log at event `applied` equals `claimed`. False if none is known.
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

-- The number of the last call of the owner if this call was overtaken by it: this call must not undo later ones. Otherwise nil.
local function overtaken(meta, kind, number, again)
  local last = tonumber(redis.call('HGET', meta, kind) or '0')
  if tonumber(number) < last or (tonumber(number) == last and again ~= '1') then return str(last) end
  return nil
end
