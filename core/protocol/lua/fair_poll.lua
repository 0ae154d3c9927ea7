-- Says that waiters of the fair lock live, and hears who holds it.
--
-- KEYS[1]  the lock: HASH {owner -> 1}, its TTL the lease
-- KEYS[2]  the fencing token's STRING
-- KEYS[3]  the queue, see parts/fair.lua
-- KEYS[4]  the waiters, see parts/fair.lua
-- ARGV     pairs of an owner id and '1' if it wants a token, else '0'; 128 at most
--
-- Reply    {pttl, holder, token, now}  held, perhaps by one of these, for which a token is drawn;
--                               '' if by none of them, or it wants none; pttl in milliseconds
--                               (-1: no TTL), now in µs of the server's clock as text.
--                               Without holder (pttl -2): so many were dead that the next
--                               call has to go on from there
--
-- Uses parts/token.lua, parts/publish.lua, parts/form.lua, parts/fair.lua, parts/fair_wait.lua
--
-- Invariant: a waiter keeps its place; one that the server forgot comes last. PEXPIRE
-- is the first write, so that a full server cannot refuse the call.

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
local granted, news, drawn
if not holder then
  granted, news, drawn = grant_next(stored, time)
  if granted then
    tell(granted, news)
    holder = granted
  end
end
local token = ''
for i = 1, #ARGV, 2 do
  if ARGV[i] == holder and ARGV[i + 1] == '1' then
    -- Who was granted it before gets one of its own: what is stored may be that of another kind of this name.
    token = granted and drawn or draw_token(KEYS[2], stored, time)
  end
end
return {redis.call('PTTL', lock), holder or '', token, string.format('%.0f', now)}
