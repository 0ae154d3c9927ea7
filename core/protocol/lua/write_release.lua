-- Gives up a writer's hold, or its place among those who wait, and wakes the others.
--
-- KEYS[1]  the state: HASH, see parts/read_write.lua
-- ARGV[1]  owner id
-- ARGV[2]  the channel that waiters listen on
--
-- Reply    {1, listeners}       released; how many connections heard of it
--          {0}                  the hold had ended, or there was none
--          {2}                  another writes
--
-- Uses parts/publish.lua, parts/time.lua, parts/form.lua, parts/read_write.lua
--
-- Invariant: only this owner's hold and mark go. HDEL is the first write, so that a
-- full server cannot refuse it; PUBLISH may be refused (ACL), and the release stands.

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
  -- While another writes, nobody gets in by that.
  changed = not was_held or s[1] == owner
end
if s[1] == owner then
  redis.call('HDEL', state, 'writer', 'writer_until', 'refused')
  changed = true
  if s[4] then
    redis.call('HSET', state, 'readers_until', now + READERS_FIRST)
  end
  -- What others left there counts no longer than that.
  redis.call('PEXPIRE', state, 2 * PHASE)
end
local listeners = changed and publish(channel, '0')
if s[1] == owner and was_held then
  return {1, listeners}
end
return {was_held and 2 or 0}
