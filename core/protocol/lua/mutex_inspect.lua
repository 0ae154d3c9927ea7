-- Returns who holds the simple lock. Writes nothing.
--
-- KEYS[1]  the lock: STRING owner
--
-- Reply    {0, pttl, holder}    held; pttl in milliseconds (-1: no TTL)
--          {1}                  free
--
-- Uses parts/other_kind.lua
--
-- Invariant: read only.

local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then
  return other_kind(KEYS[1], holder)
end
if not holder then
  return {1}
end
return {0, redis.call('PTTL', KEYS[1]), string.sub(holder, 1, 256)}
