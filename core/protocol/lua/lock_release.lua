-- Releases one owner's hold and wakes the waiters.
--
-- KEYS[1]  the lock: HASH {owner -> 1}
-- ARGV[1]  owner id
-- ARGV[2]  the channel that waiters subscribe to
--
-- Reply    {1, listeners}       released; how many connections received the message
--          {0}                  there was no record
--          {2}                  the record belongs to another owner
--
-- Uses parts/publish.lua, parts/form.lua
--
-- Invariant: only this owner's field is removed. HDEL is the first write, so that a full server does not refuse the
-- release. A server may refuse PUBLISH (ACL); the release is done all the same.

local lock = KEYS[1]
local owner, channel = ARGV[1], ARGV[2]

if redis.call('HDEL', lock, owner) == 0 then
  local holder, wrong = holder_of(lock)
  if wrong then
    return wrong
  end
  if holder then
    return {2}
  end
  return {0}
end

return {1, publish_to_all(channel, '0')}
