-- Removes the fair lock's record, whoever holds it, and grants it to the next live waiter.
--
-- KEYS[1]  the lock: HASH {owner -> 1}, its TTL the lease
-- KEYS[2]  the fencing token's STRING
-- KEYS[3]  the queue, see parts/fair.lua
-- KEYS[4]  the waiters, see parts/fair.lua
-- ARGV[1]  the channel that waiters of the plain lock listen on
--
-- Reply    {1, listeners}       removed; how many connections heard that it is free
--          {0}                  there was no record
--
-- Uses parts/token.lua, parts/publish.lua, parts/form.lua, parts/fair.lua
--
-- Invariant: nothing but a lock's record is removed; the queue keeps its order.

local lock, channel = KEYS[1], ARGV[1]

-- Commands that only operators may run come first, and their refusal holds.
local fields = redis.pcall('HLEN', lock)
if fields == 0 then
  return {0}
end
local _, wrong = holder_of(lock)
if wrong then
  return wrong
elseif type(fields) == 'table' then
  return fields
end
redis.call('DEL', lock)
local listeners = 0
local granted, news = try_to_grant()
if granted then
  tell(granted, news)
else
  listeners = publish_to_all(channel, '0')
end
return {1, listeners}
