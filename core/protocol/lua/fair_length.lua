-- Returns how many waiters the fair lock has. Writes nothing.
--
-- KEYS[1]  the wait queue: ZSET {owner -> arrival}
--
-- Reply    {1, length}          the number includes dead waiters, which the server skips only when their turn comes
--
-- Invariant: read only.

return {1, redis.call('ZCARD', KEYS[1])}
