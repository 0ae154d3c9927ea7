-- Removes the record of the simple lock, no matter who holds it, and wakes the waiters.
--
-- KEYS[1]  the lock: STRING owner
-- ARGV[1]  the channel that Steadlock's waiters subscribe to
--
-- Reply    {1, listeners}       removed; how many connections received the message
--          {0}                  there was no record
--
-- Uses parts/publish.lua, parts/other_kind.lua
--
-- Invariant: nothing but a STRING is removed.

-- In another library even an empty text can be an owner id, so a length of 0 does not mean that the key is absent.
local length = redis.pcall('STRLEN', KEYS[1])
if type(length) == 'table' then
  return other_kind(KEYS[1], length)
end
if length == 0 and not redis.call('GET', KEYS[1]) then
  return {0}
end
redis.call('DEL', KEYS[1])
return {1, publish(ARGV[1], '0')}
