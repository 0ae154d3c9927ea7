-- Returns who holds one side of a read-write lock. Writes nothing.
--
-- KEYS[1]  the record of the side: for 'write' the state, a HASH, see parts/read_write.lua;
--          for 'read' the readers, a ZSET {owner -> deadline}
-- ARGV[1]  'read' or 'write'
--
-- Reply    {0, left, holder}    held; the writer, or the reader whose hold expires last; `left` in milliseconds
--          {1}                  free
--
-- Uses parts/time.lua, parts/form.lua, parts/read_write.lua
--
-- Invariant: read only.

local now = milliseconds(redis.call('TIME'))
local holder, ends, wrong, _
if ARGV[1] == 'write' then
  local s = redis.call('HMGET', KEYS[1], 'writer', 'writer_until')
  _, wrong = read_state(KEYS[1])
  holder, ends = s[1], s[2]
else
  local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
  wrong = readers_error(last, 2)
  holder, ends = last[1], last[2]
end
if wrong then
  return wrong
end
if left(ends, now) <= 0 then
  return {1}
end
return {0, left(ends, now), holder}
