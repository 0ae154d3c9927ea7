-- Takes the fair lock for one owner, or puts it at the end of the queue. Who tries once is
-- granted it if nobody who lives waits before it.
--
-- KEYS[1]  the lock: HASH {owner -> 1}, its TTL the lease
-- KEYS[2]  the fencing token's STRING
-- KEYS[3]  the queue, see parts/fair.lua
-- KEYS[4]  the waiters, see parts/fair.lua
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
-- ARGV[3]  '1' to draw a token, else '0'
-- ARGV[4]  '1' to wait in the queue, '0' to try once
--
-- Reply    {1, token}           granted; token is decimal text, or '' when off
--          {0, pttl, holder, now}  held, and queued if it waits; pttl in milliseconds (-1: no TTL),
--                               now in µs of the server's clock as text. Without holder (pttl -2):
--                               so many were dead that the next call has to go on from there
--
-- Uses parts/lease.lua, parts/token.lua, parts/publish.lua, parts/form.lua, parts/fair.lua, parts/fair_wait.lua
--
-- Invariant: granted to the first live waiter, never to a caller out of turn; asking
-- again with the same owner keeps its place and its hold, and makes none shorter. No two
-- replies have one token, and a later one has a higher.

local lock = KEYS[1]
local lease, owner, wants_token, waits = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'

local wrong = lease_error(lease)
if wrong then
  return wrong
end
if not owner or owner == '' then
  return redis.error_reply('STEADLOCK_ARGUMENT the owner must not be empty')
end
local stored = redis.call('GET', KEYS[2])
wrong = token_error(stored)
if wrong then
  return wrong
end

-- Grants the lock to the caller, at once and for as long as it asks.
local function take(time)
  local token = wants_token == '1' and draw_token(KEYS[2], stored, time or redis.call('TIME')) or ''
  redis.call('HSET', lock, owner, '1')
  redis.call('PEXPIRE', lock, lease)
  return {1, token}
end

if redis.call('EXISTS', lock, KEYS[3]) == 0 then
  -- Nobody has it, and nobody waits.
  return take()
end

local pttl, holder = redis.call('PTTL', lock)
holder, wrong = holder_of(lock)
if wrong then
  return wrong
end
if holder == owner then
  if pttl < tonumber(lease) then
    redis.call('PEXPIRE', lock, lease)
  end
  -- What is stored may be the token of another kind of this name.
  return {1, wants_token == '1' and draw_token(KEYS[2], stored, redis.call('TIME')) or ''}
end

local time = redis.call('TIME')
local now = microseconds(time)
if waits then
  -- First, so that who waits hears who holds the lock also from a full server.
  wait_in_line({owner, wants_token}, holder, now)
end
if not holder then
  local granted, news, token = grant_next(stored, time)
  if granted == owner then
    redis.call('PEXPIRE', lock, lease)
    return {1, token}
  elseif granted then
    tell(granted, news)
    pttl, holder = redis.call('PTTL', lock), granted
  elseif not waits and redis.call('ZCARD', KEYS[3]) == 0 then
    -- All who were before it were dead.
    return take(time)
  end
end
return {0, pttl, holder or '', string.format('%.0f', now)}
