-- Removes the holds of one side of a read-write lock and wakes those who wait.
--
-- KEYS[1]  the state: HASH, see parts/read_write.lua
-- KEYS[2]  the readers: ZSET {owner -> deadline}
-- KEYS[3]  the channel that waiters listen on
-- ARGV[1]  'read' or 'write'
--
-- Reply    {1, listeners}       removed; how many connections heard of it
--          {0}                  there was no hold
--
-- Invariant: the other side's holds stay.

local removed
if ARGV[1] == 'write' then
  removed = redis.call('HDEL', KEYS[1], 'writer', 'writer_until', 'refused')
else
  removed = redis.call('ZCARD', KEYS[2])
  redis.call('DEL', KEYS[2])
end
if removed == 0 then
  return {0}
end
local listeners = redis.pcall('PUBLISH', KEYS[3], '0')
return {1, type(listeners) == 'number' and listeners or 0}
