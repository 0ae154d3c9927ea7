-- Returns how many permits are held. Writes nothing.
--
-- KEYS[1]  the permits: ZSET {owner/i -> deadline in ms of the server's clock}
--
-- Reply    {0, left, holder, held, limit}  the permit that expires last, with `left` in milliseconds;
--                                          how many are held; the limit
--          {1}                             all permits are free
--
-- Uses parts/time.lua, parts/form.lua, parts/permits.lua
--
-- Invariant: read only.

local now = milliseconds(redis.call('TIME'))
local wrong = permits_error(KEYS[1])
if wrong then
  return wrong
end
local held = redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf')
if held == 0 then
  return {1}
end
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
local limit = tonumber(redis.call('ZSCORE', KEYS[1], 'limit') or 0)
return {0, last[2] - now, (owner_of(last[1])), held, limit}
