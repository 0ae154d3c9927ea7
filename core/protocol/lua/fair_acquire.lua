-- Acquires the fair lock for one owner, or puts the owner at the end of the wait queue. A single attempt does not join
-- the queue; it is granted the lock only if no live waiter is in the queue.
--
-- KEYS[1]  the lock: HASH {owner -> 1}; its TTL is the lease
-- KEYS[2]  the fencing token: STRING
-- KEYS[3]  the wait queue, see parts/fair.lua
-- KEYS[4]  the waiters, see parts/fair.lua
-- KEYS[5]  only for a leader: the last term, see parts/fair.lua
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
-- ARGV[3]  '1' to draw a token, else '0'
-- ARGV[4]  '1' to wait in the queue, '0' for a single attempt
--
-- Reply    {1, token}           granted; token is decimal text, or '' when off
--          {0, pttl, holder, now}  refused; a caller that waits is in the queue. pttl in milliseconds (-1: no TTL),
--                               now in µs of the server's clock as text. An empty holder (pttl -2):
--                               the call removed its maximum of dead waiters; the caller must call again
--
-- Uses parts/lease.lua, parts/token.lua, parts/publish.lua, parts/form.lua, parts/fair.lua, parts/fair_wait.lua
--
-- Invariant: the lock is granted to the first live waiter, never out of turn. A repeated call with the same owner
-- keeps its place or its hold, and shortens no hold. No two replies have the same token, and a later reply has a higher
-- token.

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

-- Grants the lock to the caller, with the lease that it requested.
local function take(time)
  local token = wants_token == '1' and draw(owner, stored, time or redis.call('TIME')) or ''
  redis.call('HSET', lock, owner, '1')
  redis.call('PEXPIRE', lock, lease)
  return {1, token}
end

if redis.call('EXISTS', lock, KEYS[3]) == 0 then
  -- The lock is free and has no waiters.
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
  return {1, wants_token == '1' and draw_again(owner, stored, redis.call('TIME')) or ''}
end

local time = redis.call('TIME')
local now = microseconds(time)
if waits then
  -- This is the first write, so that a waiting caller gets its place in the queue, and learns who holds the lock, even
  -- from a full server.
  wait_in_line({owner, wants_token}, holder, now)
end
if not holder then
  local granted, message, token = grant_next(stored, time)
  if granted == owner then
    redis.call('PEXPIRE', lock, lease)
    return {1, token}
  elseif granted then
    tell(granted, message)
    pttl, holder = redis.call('PTTL', lock), granted
  elseif not waits and redis.call('ZCARD', KEYS[3]) == 0 then
    -- All waiters in the queue were dead.
    return take(time)
  end
end
return {0, pttl, holder or '', string.format('%.0f', now)}
