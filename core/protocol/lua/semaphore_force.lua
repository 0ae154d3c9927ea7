-- Removes all permits, no matter who holds them, and wakes the waiters.
--
-- KEYS[1]  the permits: ZSET {owner/i -> deadline in ms of the server's clock}
-- ARGV[1]  the channel that waiters subscribe to
--
-- Reply    {1, listeners}       removed; how many connections received the message
--          {0}                  there was no permit
--
-- Uses parts/publish.lua, parts/form.lua, parts/permits.lua
--
-- Invariant: nothing but permits is removed.

if redis.call('ZCARD', KEYS[1]) == 0 then
  return {0}
end
local wrong = permits_error(KEYS[1])
if wrong then
  return wrong
end
redis.call('DEL', KEYS[1])
return {1, publish(ARGV[1], '0')}
