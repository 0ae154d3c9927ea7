-- Prepended to the scripts that publish a message.
--
-- In a cluster whose servers support sharded channels, clients subscribe to sharded channels at the node that stores
-- the lock. In such a cluster, the client that calls a script appends the word 'sharded' to the arguments.

local is_sharded = ARGV[#ARGV] == 'sharded'
if is_sharded then
  table.remove(ARGV)
end

-- Returns the number in the reply to PUBLISH; 0 if the server refused.
local function listener_count(listeners)
  return type(listeners) == 'number' and listeners or 0
end

-- Publishes a message and returns how many connections received it. A server may refuse to publish (ACL); the script
-- does not fail then.
local function publish(channel, message)
  return listener_count(redis.pcall(is_sharded and 'SPUBLISH' or 'PUBLISH', channel, message))
end

-- Publishes a message to the clients of Steadlock and Redisson, and returns how many connections received it. In a
-- cluster with sharded channels this takes two messages, because some versions and modes of Redisson never subscribe to
-- sharded channels. The payload '0' is Redisson's message for a released lock.
local function publish_to_all(channel, message)
  local listeners = listener_count(redis.pcall('PUBLISH', channel, message))
  if is_sharded then
    listeners = listeners + publish(channel, message)
  end
  return listeners
end
