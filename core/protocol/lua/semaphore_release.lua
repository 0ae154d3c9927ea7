-- Releases permits and wakes the waiters.
--
-- KEYS[1]  the permits: ZSET {owner/i -> deadline in ms of the server's clock}
-- ARGV[1]  owner id
-- ARGV[2]  how many permits the owner has
-- ARGV[3]  the channel that waiters subscribe to
--
-- Reply    {1, listeners}       released; how many connections received the message
--          {0}                  the permits had expired, or were removed
--
-- Uses parts/publish.lua, parts/time.lua, parts/form.lua, parts/permits.lua
--
-- Invariant: only this owner's permits are removed. ZREM is the first write, so that a full server does not refuse the
-- release. A server may refuse PUBLISH (ACL); the release is done all the same.

local permits = KEYS[1]
local owner, count, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local now = milliseconds(redis.call('TIME'))
local held = tonumber(redis.call('ZSCORE', permits, owner .. '/1') or 0) > now
local mine = {}
for i = 1, count do
  mine[i] = owner .. '/' .. i
end
local removed = redis.call('ZREM', permits, unpack(mine))
if removed == 0 then
  local wrong = permits_error(permits)
  if wrong then
    return wrong
  end
end
if redis.call('ZCARD', permits) == 1 then
  -- Only the limit is left, and a limit applies only while a permit is held.
  redis.call('ZREM', permits, 'limit')
end
if removed == 0 then
  return {0}
end
local listeners = publish(channel, '0')
if not held then
  return {0}
end
return {1, listeners}
