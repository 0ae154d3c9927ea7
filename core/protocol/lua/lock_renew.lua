-- Extends the lease of a held lock. Never creates a record.
--
-- KEYS[1]  the lock: HASH {owner -> 1}
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1}                  renewed
--          {0}                  the record has expired, or was removed
--          {2}                  the record belongs to another owner
--
-- Uses parts/lease.lua, parts/keep.lua, parts/form.lua
--
-- Invariant: no record is created, the TTL of another owner's record does not change, and no TTL is shortened: a
-- renewal that was cut off may run after a later one with a longer lease.

local lock = KEYS[1]
local lease, owner = ARGV[1], ARGV[2]

local wrong = lease_error(lease)
if wrong then
  return wrong
end

if redis.call('HEXISTS', lock, owner) == 1 then
  keep(lock, lease)
  return {1}
end
local holder
holder, wrong = holder_of(lock)
if wrong then
  return wrong
end
if holder then
  return {2}
end
return {0}
