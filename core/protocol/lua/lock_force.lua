-- Removes the lock's record, whoever holds it, and wakes those who wait.
--
-- KEYS[1]  the lock: HASH {owner -> 1}
-- ARGV[1]  the channel that waiters listen on
--
-- Reply    {1, listeners}       removed; how many connections heard of it
--          {0}                  there was no record
--
-- Uses parts/publish.lua, parts/form.lua
--
-- Invariant: nothing but a lock's record is removed.

-- Commands that only operators may run come first, and their refusal holds.
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
