-- Extends the lease of held permits. Never creates a permit.
--
-- KEYS[1]  the permits: ZSET {owner/i -> deadline in ms of the server's clock}
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
-- ARGV[3]  how many permits the owner has
--
-- Reply    {1}                  renewed
--          {0}                  a permit has expired, or was removed
--
-- Uses parts/lease.lua, parts/time.lua, parts/form.lua, parts/permits.lua
--
-- Invariant: no permit is created, and no deadline of another owner changes. PEXPIRE is the first write, so that a full
-- server does not refuse the renewal.

local permits = KEYS[1]
local lease, owner = ARGV[1], ARGV[2]

local wrong = lease_error(lease)
if wrong then
  return wrong
end

local now = milliseconds(redis.call('TIME'))
local renewed = {}
for i = 1, tonumber(ARGV[3]) do
  local permit = owner .. '/' .. i
  if tonumber(redis.call('ZSCORE', permits, permit) or 0) <= now then
    return permits_error(permits) or {0}
  end
  renewed[2 * i - 1], renewed[2 * i] = now + lease, permit
end
redis.call('PEXPIRE', permits, math.max(redis.call('PTTL', permits), tonumber(lease)))
redis.call('ZADD', permits, 'XX', 'GT', unpack(renewed))
return {1}
