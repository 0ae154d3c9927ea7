-- Removes the record of the lock, no matter who holds it, and wakes the waiters.
--
-- KEYS[1]  the lock: HASH {owner -> 1}
-- ARGV[1]  the channel that waiters subscribe to
--
-- Reply    {1, listeners}       removed; how many connections received the message
--          {0}                  there was no record
--
-- Uses parts/publish.lua, parts/form.lua
--
-- Invariant: nothing but the record of a lock is removed.

-- HLEN comes first, because only an operator's user has the right to call it: without that right nothing is removed.
local fields = redis.pcall('HLEN', KEYS[1])
if fields == 0 then
  return {0}
end
local _, wrong = holder_of(KEYS[1])
if wrong then
  return wrong
elseif type(fields) == 'table' then
  return fields
end
redis.call('DEL', KEYS[1])
return {1, publish_to_all(ARGV[1], '0')}
