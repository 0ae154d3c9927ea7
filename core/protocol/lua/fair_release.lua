-- Gives up one owner's hold of the fair lock, or its place in the queue, and grants
-- the lock to the next live waiter.
--
-- KEYS[1]  the lock: HASH {owner -> 1}, its TTL the lease
-- KEYS[2]  the fencing token's STRING
-- KEYS[3]  the queue, see parts/fair.lua
-- KEYS[4]  the waiters, see parts/fair.lua
-- ARGV[1]  owner id
-- ARGV[2]  the channel that waiters of the plain lock listen on
--
-- Reply    {1, listeners}       released; how many connections heard that it is free
--          {1, 0, news}         released, and granted to another of this client, see parts/fair.lua
--          {0}                  there was no record, or it left the queue
--          {2}                  the record is another owner's
--
-- Uses parts/token.lua, parts/publish.lua, parts/form.lua, parts/fair.lua
--
-- Invariant: only this owner's hold and place go. HDEL is the first write, so that a
-- full server cannot refuse it; PUBLISH may be refused (ACL), and the release stands.

local lock = KEYS[1]
local owner, channel = ARGV[1], ARGV[2]

local removed = redis.pcall('HDEL', lock, owner)
local was_held = removed == 1
if not was_held then
  -- Who holds the lock is not in the queue.
  redis.call('ZREM', KEYS[3], owner)
  redis.call('HDEL', KEYS[4], owner)
end
if type(removed) == 'table' then
  -- The key is another kind's by now. The place is left all the same.
  return removed
end
local granted, news
-- As a rule nobody holds the lock by now, and nobody waits: one question for both.
if redis.call('EXISTS', lock, KEYS[3]) > 0 then
  local holder, wrong = holder_of(lock)
  if holder or wrong then
    if was_held then
      return {1, 0}
    end
    return wrong or {2}
  end
  granted, news = try_to_grant()
end
local listeners = 0
if not granted then
  listeners = publish_to_all(channel, '0')
elseif was_held and client_of(granted) == client_of(owner) then
  -- Its own client hears of it by the reply.
  return {1, 0, news}
else
  tell(granted, news)
end
if was_held then
  return {1, listeners}
end
return {0}
