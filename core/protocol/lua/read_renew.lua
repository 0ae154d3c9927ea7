-- Extends the lease of a reader's hold. Never creates a hold.
--
-- KEYS[1]  the readers: ZSET {owner -> deadline in ms of the server's clock}
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1}                  renewed
--          {0}                  the hold has expired, or was removed
--
-- Uses parts/lease.lua, parts/time.lua, parts/form.lua, parts/read_write.lua
--
-- Invariant: no hold is created. PEXPIRE is the first write, so that a full server does not refuse the renewal.

local readers = KEYS[1]
local lease, owner = ARGV[1], ARGV[2]

local wrong = lease_error(lease)
if wrong then
  return wrong
end

local now = milliseconds(redis.call('TIME'))
if tonumber(redis.call('ZSCORE', readers, owner) or 0) <= now then
  return readers_error(redis.call('ZRANGE', readers, 0, 0), 1) or {0}
end
redis.call('PEXPIRE', readers, math.max(redis.call('PTTL', readers), tonumber(lease)))
redis.call('ZADD', readers, 'XX', 'GT', now + lease, owner)
return {1}
