-- Makes a held simple lock last longer. Never creates a record.
--
-- KEYS[1]  the lock: STRING owner
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1}                  renewed
--          {0}                  the record is gone
--          {2}                  the record is another owner's
--
-- Uses parts/lease.lua, parts/keep.lua
--
-- Invariant: no record is created, and nobody else's TTL changes.

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
