-- Releases one owner's hold of the simple lock and wakes the waiters.
--
-- KEYS[1]  the lock: STRING owner
-- ARGV[1]  owner id
-- ARGV[2]  the channel that Steadlock's waiters subscribe to
--
-- Reply    {1, listeners}       released; how many connections received the message
--          {0}                  there was no record
--          {2}                  the record belongs to another owner
--
-- Uses parts/publish.lua
--
-- Invariant: only this owner's record is removed. A server may refuse PUBLISH (ACL); the release is done all the same.

local lock = KEYS[1]
local owner, channel = ARGV[1], ARGV[2]

local holder = redis.call('GET', lock)
if not holder then
  return {0}
end
if holder ~= owner then
  return {2}
end
redis.call('DEL', lock)
return {1, publish(channel, '0')}
