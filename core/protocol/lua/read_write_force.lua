-- Removes the holds of one side of a read-write lock and wakes those who wait.
--
-- KEYS[1]  the side's record: of 'write' the state, a HASH, see parts/read_write.lua;
--          of 'read' the readers, ZSET {owner -> deadline}
-- ARGV[1]  'read' or 'write'
-- ARGV[2]  the channel that waiters listen on
--
-- Reply    {1, listeners}       removed; how many connections heard of it
--          {0}                  there was no hold
--
-- Uses parts/publish.lua, parts/form.lua, parts/read_write.lua
--
-- Invariant: the other side's holds stay, and so does what is no hold.

local removed, wrong, _
if ARGV[1] == 'write' then
  _, wrong = read_state(KEYS[1])
else
  -- The first and the last of them.
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
