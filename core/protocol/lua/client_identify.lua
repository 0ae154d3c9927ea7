-- Stores which program on which machine a client is.
--
-- KEYS[1]  the client's description: STRING, a line key=value for each part
-- ARGV[1]  the description
-- ARGV[2]  its TTL in milliseconds
--
-- Reply    {1}
--
-- Invariant: one command writes the key and its TTL, so that the key never lacks a TTL. The script touches no lock.

redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1}
