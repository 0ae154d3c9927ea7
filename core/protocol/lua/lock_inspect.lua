-- Returns who holds the lock. Writes nothing.
--
-- KEYS[1]  the lock: HASH {owner -> 1}
--
-- Reply    {0, pttl, holder}    held; pttl in milliseconds (-1: no TTL)
--          {1}                  free
--
-- Uses parts/form.lua
--
-- Invariant: read only.

local pttl = redis.call('PTTL', KEYS[1])
if pttl == -2 then
  return {1}
end
local holder, wrong = holder_of(KEYS[1])
if wrong then
  return wrong
end
return {0, pttl, holder or ''}
