-- Makes a held lock last for a lease from now. Never creates a record.
--
-- KEYS[1]  the lock: HASH {owner -> 1}
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1}                  renewed
--          {0}                  the record is gone
--          {2}                  the record is another owner's
--
-- Invariant: no record is created, nobody else's TTL changes, and none gets
-- shorter: a renewal that was cut off may run after later ones that ask for more.

local lock = KEYS[1]
local lease, owner = ARGV[1], ARGV[2]

if not string.find(lease, '^[1-9]%d*$') or tonumber(lease) > 86400000 then
  return redis.error_reply('LEASEHOLD_ARGUMENT the lease must be 1 to 86400000 ms')
end

if redis.call('HEXISTS', lock, owner) == 1 then
  if redis.call('PTTL', lock) < tonumber(lease) then
    redis.call('PEXPIRE', lock, lease)
  end
  return {1}
end
if redis.call('EXISTS', lock) == 1 then
  return {2}
end
return {0}
