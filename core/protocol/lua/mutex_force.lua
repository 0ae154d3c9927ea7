-- Removes the simple lock's record, whoever holds it, and wakes those who wait.
--
-- KEYS[1]  the lock: STRING owner
-- ARGV[1]  the channel that Steadlock's waiters listen on
--
-- Reply    {1, listeners}       removed; how many connections heard of it
--          {0}                  there was no record
--
-- Uses parts/publish.lua, parts/other_kind.lua
--
-- Invariant: nothing but a STRING is removed.

-- An empty text is another library's holder, too.
local length = redis.pcall('STRLEN', KEYS[1])
if type(length) == 'table' then
  return other_kind(KEYS[1], length)
end
if length == 0 and not redis.call('GET', KEYS[1]) then
  return {0}
end
redis.call('DEL', KEYS[1])
return {1, publish(ARGV[1], '0')}
