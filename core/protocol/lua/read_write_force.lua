-- Removes the holds of one side of a read-write lock and wakes the waiters.
--
-- KEYS[1]  the record of the side: for 'write' the state, a HASH, see parts/read_write.lua;
--          for 'read' the readers, a ZSET {owner -> deadline}
-- ARGV[1]  'read' or 'write'
-- ARGV[2]  the channel that waiters subscribe to
--
-- Reply    {1, listeners}       removed; how many connections received the message
--          {0}                  there was no hold
--
-- Uses parts/publish.lua, parts/form.lua, parts/read_write.lua
--
-- Invariant: the holds of the other side stay. A key that is not such a record stays too.

local removed, wrong, _
if ARGV[1] == 'write' then
  _, wrong = read_state(KEYS[1])
else
  -- Checks only the first and the last reader, because there may be thousands.
  wrong = readers_error(redis.call('ZRANGE', KEYS[1], 0, 0), 1)
    or readers_error(redis.call('ZRANGE', KEYS[1], -1, -1), 1)
end
if wrong then
  return wrong
end
if ARGV[1] == 'write' then
  removed = redis.call('HDEL', KEYS[1], 'writer', 'writer_until', 'refused')
else
  removed = redis.call('ZCARD', KEYS[1])
  redis.call('DEL', KEYS[1])
end
if removed == 0 then
  return {0}
end
return {1, publish(ARGV[2], '0')}
