-- Records that waiters of the fair lock are alive, grants the lock to the first live waiter if the lock is free, and
-- returns who holds it.
--
-- KEYS[1]  the lock: HASH {owner -> 1}; its TTL is the lease
-- KEYS[2]  the fencing token: STRING
-- KEYS[3]  the wait queue, see parts/fair.lua
-- KEYS[4]  the waiters, see parts/fair.lua
-- KEYS[5]  only for a leader: the last term, see parts/fair.lua
-- ARGV     pairs of an owner id and '1' if the owner wants a token, else '0'; at most 128 pairs
--
-- Reply    {pttl, holder, token, now}  held. token is new if the holder is one of these waiters and wants a token,
--                               else ''; pttl in milliseconds (-1: no TTL),
--                               now in µs of the server's clock as text.
--                               An empty holder (pttl -2): the call removed its maximum of
--                               dead waiters; the caller must call again
--
-- Uses parts/token.lua, parts/publish.lua, parts/form.lua, parts/fair.lua, parts/fair_wait.lua
--
-- The script publishes a grant message even for a waiter of the calling client: if the call does not name this waiter,
-- the reply has no token for it.
--
-- Invariant: a waiter keeps its place; a waiter that the server no longer knows is appended to the queue. The queue's
-- PEXPIRE is the first write, so that a full server does not refuse the call.

local lock = KEYS[1]

local stored = redis.call('GET', KEYS[2])
local wrong = token_error(stored)
if wrong then
  return wrong
end
if #ARGV > 256 then
  return redis.error_reply('STEADLOCK_ARGUMENT at most 128 waiters in one call')
end

local holder
holder, wrong = holder_of(lock)
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now = microseconds(time)
wait_in_line(ARGV, holder, now)
local granted, message, drawn
if not holder then
  granted, message, drawn = grant_next(stored, time)
  if granted then
    tell(granted, message)
    holder = granted
  end
end
local token = ''
for i = 1, #ARGV, 2 do
  if ARGV[i] == holder and ARGV[i + 1] == '1' then
    -- An earlier call may have granted the lock to this waiter.
    token = granted and drawn or draw_again(holder, stored, time)
  end
end
return {redis.call('PTTL', lock), holder or '', token, string.format('%.0f', now)}
