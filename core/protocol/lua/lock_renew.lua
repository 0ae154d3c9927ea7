-- Makes a held lock last longer. Never creates a record.
--
-- KEYS[1]  the lock: HASH {owner -> 1}
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1}                  renewed
--          {0}                  the record is gone
--          {2}                  the record is another owner's
--
-- Uses parts/lease.lua, parts/keep.lua, parts/form.lua
--
-- Invariant: no record is created, nobody else's TTL changes, and none gets
-- shorter: a renewal that was cut off may run after later ones that ask for more.

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
