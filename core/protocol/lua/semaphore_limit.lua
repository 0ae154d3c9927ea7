-- Changes the limit that applies while permits are held, and wakes the waiters.
--
-- KEYS[1]  the permits: ZSET {owner/i -> deadline in ms of the server's clock}, and
--          {limit -> the number of permits}
-- ARGV[1]  the new limit, 1 to 1000000
-- ARGV[2]  the channel that waiters subscribe to
--
-- Reply    {1, listeners}       changed; how many connections received the message
--          {0}                  no permit is held, so there is no limit to change
--
-- Uses parts/publish.lua, parts/time.lua, parts/form.lua, parts/permits.lua
--
-- Invariant: no permit is granted, removed or extended. A limit is written only while a permit is held, because the key
-- then has a TTL.

local permits = KEYS[1]
local limit, channel = tonumber(ARGV[1]), ARGV[2]

if not (limit and limit >= 1 and limit <= 1000000 and limit % 1 == 0) then
  return redis.error_reply('STEADLOCK_ARGUMENT the limit must be 1 to 1000000')
end

local wrong = permits_error(permits)
if wrong then
  return wrong
end
local now = milliseconds(redis.call('TIME'))
if redis.call('ZCOUNT', permits, '(' .. now, '+inf') == 0 then
  return {0}
end
redis.call('ZADD', permits, limit, 'limit')
return {1, publish(channel, '0')}
