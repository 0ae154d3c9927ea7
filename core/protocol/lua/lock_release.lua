-- Gives up one owner's hold and wakes those who wait.
--
-- KEYS[1]  the lock: HASH {owner -> 1}
-- ARGV[1]  owner id
-- ARGV[2]  the channel that waiters listen on
--
-- Reply    {1, listeners}       released; how many connections heard of it
--          {0}                  there was no record
--          {2}                  the record is another owner's
--
-- Uses parts/publish.lua, parts/form.lua
--
-- Invariant: only this owner's field goes. HDEL is the first write, so a full
-- server cannot refuse it; PUBLISH may be refused (ACL), and the release stands.

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
