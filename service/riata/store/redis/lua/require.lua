#!lua flags=no-writes
-- Whether a caller owns the store.
-- KEYS   own
-- ARGV   identity, epoch, nonce
-- Return OK  |  FENCED  |  GONE
if not same_store(KEYS[1], ARGV[1]) then return {'GONE'} end
if not owns(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
return {'OK'}
