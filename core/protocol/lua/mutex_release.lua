-- Gives up one owner's hold of the simple lock and wakes those who wait.
--
-- KEYS[1]  the lock: STRING owner
-- ARGV[1]  owner id
-- ARGV[2]  the channel that Steadlock's waiters listen on
--
-- Reply    {1, listeners}       released; how many connections heard of it
--          {0}                  there was no record
--          {2}                  the record is another owner's
--
-- Uses parts/publish.lua
--
-- Invariant: only this owner's record goes. PUBLISH may be refused (ACL), and
-- the release stands.

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
