-- Says how many wait for the fair lock. Writes nothing.
--
-- KEYS[1]  the queue: ZSET {owner -> when it came}
--
-- Reply    {1, length}          dead waiters too, which are passed over when their turn comes
--
-- Invariant: read only.

return {1, redis.call('ZCARD', KEYS[1])}
