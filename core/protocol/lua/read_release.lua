-- Gives up a reader's hold; the last one wakes those who wait.
--
-- KEYS[1]  the state: HASH, see parts/read_write.lua
-- KEYS[2]  the readers: ZSET {owner -> deadline}
-- ARGV[1]  owner id
-- ARGV[2]  the channel that waiters listen on
--
-- Reply    {1, listeners}       released; how many connections heard of it
--          {0}                  the hold had ended
--
-- Uses parts/publish.lua, parts/time.lua, parts/form.lua, parts/read_write.lua
--
-- Invariant: only this owner's hold goes. ZREM is the first write, so that a full
-- server cannot refuse it; PUBLISH may be refused (ACL), and the release stands.

local state, readers = KEYS[1], KEYS[2]
local owner, channel = ARGV[1], ARGV[2]

local now = milliseconds(redis.call('TIME'))
local was_held = tonumber(redis.call('ZSCORE', readers, owner) or 0) > now
local removed = redis.call('ZREM', readers, owner)
local listeners = 0
if removed == 1 and redis.call('ZCOUNT', readers, '(' .. now, '+inf') == 0 then
  -- The readers that a write had kept out have had their turn.
  redis.call('HDEL', state, 'readers_until')
  listeners = publish(channel, '0')
end
if not was_held then
  return readers_error(redis.call('ZRANGE', readers, 0, 0), 1) or {0}
end
return {1, listeners}
