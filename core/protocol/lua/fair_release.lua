-- Removes one owner's hold of the fair lock, or its place in the wait queue, and grants the lock to the next live
-- waiter.
--
-- KEYS[1]  the lock: HASH {owner -> 1}; its TTL is the lease
-- KEYS[2]  the fencing token: STRING
-- KEYS[3]  the wait queue, see parts/fair.lua
-- KEYS[4]  the waiters, see parts/fair.lua
-- KEYS[5]  only for a leader: the last term, see parts/fair.lua
-- ARGV[1]  owner id
-- ARGV[2]  the channel of releases, to which waiters of `lock` and `fair_lock` subscribe
-- ARGV[3]  the owner id of a waiter that comes before all others, if it is in the queue; empty for none
--
-- Reply    {1, listeners}       released; how many connections received the message that the lock is free: none if
--                               the lock was granted to another client, which gets a grant message
--          {1, 0, message}      released, and granted to another owner of this client; its grant message
--          {0}                  no owner held the lock; the place of this owner in the queue, if any, was removed
--          {2}                  another owner holds the lock; the place of this owner in the queue, if any, was
--                               removed
--
-- Uses parts/token.lua, parts/publish.lua, parts/form.lua, parts/fair.lua
--
-- Invariant: no other owner loses its hold. Only this owner, the waiter that is granted the lock, and dead waiters
-- before it leave the queue. HDEL is the first write, so that a full server does not refuse the release. A server may
-- refuse PUBLISH (ACL); the release is done all the same.

local lock = KEYS[1]
local owner, channel, successor = ARGV[1], ARGV[2], ARGV[3]

local removed = redis.pcall('HDEL', lock, owner)
local was_held = removed == 1
if not was_held then
  -- A holder is never in the queue, so an owner is looked for there only if it did not hold the lock.
  redis.call('ZREM', KEYS[3], owner)
  redis.call('HDEL', KEYS[4], owner)
end
if type(removed) == 'table' then
  -- Another kind of lock has this key by now. The place in the queue is removed all the same.
  return removed
end
local granted, message
-- One EXISTS for both keys: usually the lock is free by now and has no waiters.
if redis.call('EXISTS', lock, KEYS[3]) > 0 then
  local holder, wrong = holder_of(lock)
  -- Another owner holds the lock, or another program added fields to the hash: the lock is not free.
  if holder or wrong then
    if was_held then
      return {1, 0}
    end
    return wrong or {2}
  end
  if was_held and successor ~= '' then
    -- Puts that waiter before all others.
    redis.pcall('ZADD', KEYS[3], 'XX', 0, successor)
  end
  granted, message = try_to_grant()
end
local listeners = 0
if not granted then
  listeners = publish_to_all(channel, '0')
elseif was_held and client_of(granted) == client_of(owner) then
  -- The reply tells the client about the grant, so no message is published.
  return {1, 0, message}
else
  tell(granted, message)
end
if was_held then
  return {1, listeners}
end
return {0}
