-- Releases a reader's hold; the release of the last reader wakes the waiters.
--
-- KEYS[1]  the state: HASH, see parts/read_write.lua
-- KEYS[2]  the readers: ZSET {owner -> deadline}
-- ARGV[1]  owner id
-- ARGV[2]  the channel that waiters subscribe to
--
-- Reply    {1, listeners}       released; how many connections received the message, which only the last reader sends
--          {0}                  the hold had expired, or there was none
--
-- Uses parts/publish.lua, parts/time.lua, parts/form.lua, parts/read_write.lua
--
-- Invariant: only this owner's hold is removed. ZREM is the first write, so that a full server does not refuse the
-- release. A server may refuse PUBLISH (ACL); the release is done all the same.

local state, readers = KEYS[1], KEYS[2]
local owner, channel = ARGV[1], ARGV[2]

local now = milliseconds(redis.call('TIME'))
local was_held = tonumber(redis.call('ZSCORE', readers, owner) or 0) > now
local removed = redis.call('ZREM', readers, owner)
local listeners = 0
if removed == 1 and redis.call('ZCOUNT', readers, '(' .. now, '+inf') == 0 then
  -- The readers with precedence have had their turn, so a writer may come next.
  redis.call('HDEL', state, 'readers_until')
  listeners = publish(channel, '0')
end
if not was_held then
  return readers_error(redis.call('ZRANGE', readers, 0, 0), 1) or {0}
end
return {1, listeners}
