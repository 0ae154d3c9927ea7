-- Put before the scripts that tell others something.
--
-- In a cluster whose servers have sharded channels, clients listen so at the node that has the
-- lock. Who calls the script there adds the word 'sharded' to its arguments.

local is_sharded = ARGV[#ARGV] == 'sharded'
if is_sharded then
  table.remove(ARGV)
end

local function heard(listeners)
  return type(listeners) == 'number' and listeners or 0
end

-- Gives how many connections heard of it. A server may refuse it (ACL), which is no failure.
local function publish(channel, message)
  return heard(redis.pcall(is_sharded and 'SPUBLISH' or 'PUBLISH', channel, message))
end

-- The same where Redisson's clients listen, too: those of some versions and modes never listen to sharded channels.
local function publish_to_all(channel, message)
  local listeners = heard(redis.pcall('PUBLISH', channel, message))
  if is_sharded then
    listeners = listeners + publish(channel, message)
  end
  return listeners
end
