-- Removes the record of the fair lock, no matter who holds it, and grants the lock to the next live waiter.
--
-- KEYS[1]  the lock: HASH {owner -> 1}; its TTL is the lease
-- KEYS[2]  the fencing token: STRING
-- KEYS[3]  the wait queue, see parts/fair.lua
-- KEYS[4]  the waiters, see parts/fair.lua
-- KEYS[5]  only for a leader: the last term, see parts/fair.lua
-- ARGV[1]  the channel of releases, to which waiters of `lock` and `fair_lock` subscribe
--
-- Reply    {1, listeners}       removed; how many connections received the message that the lock is free: none if
--                               the lock was granted to a waiter
--          {0}                  there was no record
--
-- Uses parts/token.lua, parts/publish.lua, parts/form.lua, parts/fair.lua
--
-- Invariant: only the record of a lock is removed. The waiter that is granted the lock, and dead waiters before it,
-- leave the queue; the others keep their order.

local lock, channel = KEYS[1], ARGV[1]

-- HLEN comes first, because only an operator's user has the right to call it: without that right nothing is removed.
local fields = redis.pcall('HLEN', lock)
if fields == 0 then
  return {0}
end
local _, wrong = holder_of(lock)
if wrong then
  return wrong
elseif type(fields) == 'table' then
  return fields
end
redis.call('DEL', lock)
local listeners = 0
local granted, message = try_to_grant()
if granted then
  tell(granted, message)
else
  listeners = publish_to_all(channel, '0')
end
return {1, listeners}
