-- Releases a writer's hold, or removes the mark of a waiting writer, and wakes the waiters.
--
-- KEYS[1]  the state: HASH, see parts/read_write.lua
-- ARGV[1]  owner id
-- ARGV[2]  the channel that waiters subscribe to
--
-- Reply    {1, listeners}       released; how many connections received the message
--          {0}                  the hold had expired, or there was none; the owner's mark, if any, was removed
--          {2}                  another owner writes; this owner's mark, if any, was removed
--
-- Uses parts/publish.lua, parts/time.lua, parts/form.lua, parts/read_write.lua
--
-- Invariant: only this owner's hold and mark are removed. HDEL is the first write, so that a full server does not
-- refuse the release. A server may refuse PUBLISH (ACL); the release is done all the same.

local state = KEYS[1]
local owner, channel = ARGV[1], ARGV[2]

local now = milliseconds(redis.call('TIME'))
local s = redis.call('HMGET', state, 'writer', 'writer_until', 'mark', 'refused')
if s[1] ~= owner then
  local _, wrong = read_state(state)
  if wrong then
    return wrong
  end
end
local was_held = left(s[2], now) > 0
local changed = false
if s[3] == owner then
  redis.call('HDEL', state, 'mark', 'mark_until')
  -- While another owner writes, the removal of a mark lets no waiter in.
  changed = not was_held or s[1] == owner
end
if s[1] == owner then
  redis.call('HDEL', state, 'writer', 'writer_until', 'refused')
  changed = true
  if s[4] then
    redis.call('HSET', state, 'readers_until', now + READERS_FIRST)
  end
  -- No other field of the state counts for longer than this.
  redis.call('PEXPIRE', state, 2 * PHASE)
end
local listeners = changed and publish(channel, '0')
if s[1] == owner and was_held then
  return {1, listeners}
end
return {was_held and 2 or 0}
