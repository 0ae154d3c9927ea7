-- Extends the lease of a held simple lock. Never creates a record.
--
-- KEYS[1]  the lock: STRING owner
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1}                  renewed
--          {0}                  the record has expired, or was removed
--          {2}                  the record belongs to another owner
--
-- Uses parts/lease.lua, parts/keep.lua
--
-- Invariant: no record is created, the TTL of another owner's record does not change, and no TTL is shortened.

local lock = KEYS[1]
local lease, owner = ARGV[1], ARGV[2]

local wrong = lease_error(lease)
if wrong then
  return wrong
end

local holder = redis.call('GET', lock)
if not holder then
  return {0}
end
if holder ~= owner then
  return {2}
end
keep(lock, lease)
return {1}
