-- Says which program on which machine a client is.
--
-- KEYS[1]  the client's: STRING, a line key=value for each part
-- ARGV[1]  that text
-- ARGV[2]  for how long, in milliseconds
--
-- Reply    {1}
--
-- Invariant: one command, so that there is no key without TTL. Touches no lock.

redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1}
