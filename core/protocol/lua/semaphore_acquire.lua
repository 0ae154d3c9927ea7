-- Acquires permits of a semaphore for one owner, or returns when enough permits may be free.
--
-- KEYS[1]  the permits: ZSET {owner/i -> deadline in ms of the server's clock}, and
--          {limit -> the number of permits}
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
-- ARGV[3]  how many permits are wanted, 1 to 1000 and at most the limit
-- ARGV[4]  the limit, 1 to 1000000
--
-- Reply    {1, ''}              granted
--          {0, left, holder}    too few permits are free. Enough will be free in `left` ms, when the permit of
--                               `holder` expires, unless permits are renewed
--
-- Uses parts/lease.lua, parts/time.lua, parts/form.lua, parts/permits.lua
--
-- Invariant: no permit is granted beyond the limit, and all owners use the same limit while a permit is held. A second
-- call with the same owner returns the same permits, even if the limit has changed. If the clock is set back, permits
-- that had expired may be valid again, and some of them may already be removed. If the owner's first permit is missing,
-- its other permits count for nothing, and they do not prevent a new grant to this owner.

local permits = KEYS[1]
local lease, owner, wanted, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local wrong = lease_error(lease)
if wrong then
  return wrong
end
if not (wanted and limit and wanted >= 1 and wanted <= limit and wanted <= 1000 and limit <= 1000000) then
  return redis.error_reply('STEADLOCK_ARGUMENT the permits must be 1 to 1000 and at most the limit')
end

local now = milliseconds(redis.call('TIME'))
local pttl = redis.call('PTTL', permits)
-- A deadline is higher than any limit, so this count never includes the member `limit`.
local held = redis.call('ZCOUNT', permits, '(' .. now, '+inf')
local mine = held > 0 and tonumber(redis.call('ZSCORE', permits, owner .. '/1') or 0) > now
local text
if pttl ~= -2 and not mine then
  text = redis.call('ZSCORE', permits, 'limit')
  wrong = limit_error(text)
  if wrong then
    return wrong
  end
end
if held > 0 and not mine then
  for i = 2, wanted do
    local left = owner .. '/' .. i
    if tonumber(redis.call('ZSCORE', permits, left) or 0) > now then
      held = held - redis.call('ZREM', permits, left)
    end
  end
end
local agreed
if held > 0 then
  text = text or redis.call('ZSCORE', permits, 'limit')
  agreed = tonumber(text)
  if mine then
    limit = agreed or limit
  elseif agreed ~= limit then
    return redis.error_reply('STEADLOCK_LIMIT the permits that are held agreed on a limit of ' .. tostring(text))
  end
end
if not mine and held + wanted > limit then
  local last_needed = redis.call('ZRANGEBYSCORE', permits, '(' .. now, '+inf', 'WITHSCORES',
    'LIMIT', held + wanted - limit - 1, 1)
  local holder
  holder, wrong = owner_of(last_needed[1])
  return wrong or {0, last_needed[2] - now, holder}
end

if pttl ~= -2 then
  local ended = redis.call('ZRANGEBYSCORE', permits, '(1000000', now, 'LIMIT', 0, 64)
  if #ended > 0 then
    for _, permit in ipairs(ended) do
      local is_ours, refusal = owner_of(permit)
      if not is_ours then
        return refusal
      end
    end
    redis.call('ZREM', permits, unpack(ended))
    pttl = redis.call('PTTL', permits)
  end
end
local granted = {}
for i = 1, wanted do
  granted[2 * i - 1], granted[2 * i] = now + lease, owner .. '/' .. i
end
if pttl == -2 then
  granted[2 * wanted + 1], granted[2 * wanted + 2] = limit, 'limit'
elseif agreed ~= limit then
  -- Written by a separate ZADD, because the new limit may be lower and GT would keep the old one.
  redis.call('ZADD', permits, limit, 'limit')
end
redis.call('ZADD', permits, 'GT', unpack(granted))
-- The TTL is never shortened: other permits may need it, and this call may run late.
if pttl < tonumber(lease) then
  redis.call('PEXPIRE', permits, lease)
end
return {1, ''}
