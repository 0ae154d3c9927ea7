-- Extends the lease of a writer's hold. Never creates a hold.
--
-- KEYS[1]  the state: HASH, see parts/read_write.lua
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1}                  renewed
--          {0}                  the hold has expired, or was removed
--          {2}                  another owner writes
--
-- Uses parts/lease.lua, parts/time.lua, parts/form.lua, parts/read_write.lua
--
-- Invariant: no hold is created. PEXPIRE is the first write, so that a full server does not refuse the renewal.

local state = KEYS[1]
local lease, owner = ARGV[1], ARGV[2]

local wrong = lease_error(lease)
if wrong then
  return wrong
end

local now = milliseconds(redis.call('TIME'))
local s = redis.call('HMGET', state, 'writer', 'writer_until')
if s[1] ~= owner then
  local _, found = read_state(state)
  if found then
    return found
  end
end
if left(s[2], now) <= 0 then
  return {0}
end
if s[1] ~= owner then
  return {2}
end
redis.call('PEXPIRE', state, math.max(redis.call('PTTL', state), tonumber(lease), 2 * PHASE))
redis.call('HSET', state, 'writer_until', now + math.max(tonumber(lease), left(s[2], now)))
return {1}
