-- Says how many permits are held. Writes nothing.
--
-- KEYS[1]  the permits: ZSET {owner/i -> deadline in ms of the server's clock}
--
-- Reply    {0, left, holder, held, limit}  the one that ends last; how many are held, of how many
--          {1}                             all are free
--
-- Uses parts/time.lua
--
-- Invariant: read only.

local now = milliseconds(redis.call('TIME'))
local held = redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf')
if held == 0 then
  return {1}
end
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
local limit = tonumber(redis.call('ZSCORE', KEYS[1], 'limit') or 0)
return {0, last[2] - now, (string.gsub(last[1], '/%d+$', '')), held, limit}
