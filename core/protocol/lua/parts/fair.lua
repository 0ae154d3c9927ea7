-- Put before the scripts of the fair lock.
--
-- Their first keys are
--   KEYS[1]  the lock: HASH {owner -> 1}, its TTL the lease
--   KEYS[2]  the fencing token's STRING
--   KEYS[3]  the queue: ZSET {owner -> when it came}
--   KEYS[4]  the waiters: HASH {owner -> "<last seen, µs of the server's clock> <1 if it wants a token>"}
--
-- A client hears of grants on a channel of its own for each lock: the queue's key, which
-- ends in `fair`, with `grants:` and the client in the place of that word.

-- A waiter that was not heard of for so long is dead; in microseconds.
local WAITER_LIFE = 3000000
-- A grant that its owner did not ask for at that moment lasts so long, until it is renewed.
local PROVISIONAL = 3000
-- The queue's TTL. A queue that nobody touches for so long has only dead waiters.
local QUEUE_LIFE = 30000
-- So many dead waiters are passed over by one call, which then leaves the lock free. Who hears
-- of that asks again at once.
local MOST_DEAD = 32

local function microseconds(time)
  return time[1] * 1000000 + time[2]
end

-- Grants the lock, which nobody holds, to the first live waiter. Gives its owner, if there is one, and what its
-- client is to hear: owner, when it was last seen, token. A member that is no owner id is passed over like the dead.
local function grant_next(stored, time)
  local now = microseconds(time)
  for _ = 1, MOST_DEAD do
    local owner = redis.call('ZPOPMIN', KEYS[3])[1]
    if not owner then
      return nil
    end
    local seen, wants_token = string.match(redis.call('HGET', KEYS[4], owner) or '', '^(%d+) (%d)$')
    redis.call('HDEL', KEYS[4], owner)
    if seen and is_owner(owner) and tonumber(seen) <= now and now - tonumber(seen) <= WAITER_LIFE then
      local token = wants_token == '1' and draw_token(KEYS[2], stored, time) or ''
      redis.call('HSET', KEYS[1], owner, '1')
      redis.call('PEXPIRE', KEYS[1], PROVISIONAL)
      return owner, owner .. ' ' .. seen .. ' ' .. token, token
    end
  end
end

-- Whether this command finds a value of another type than it reads.
local function is_of_other_type(command, key)
  local is_read, failure = pcall(redis.call, command, key)
  failure = type(failure) == 'table' and failure.err or failure
  return not is_read and string.find(tostring(failure), 'WRONGTYPE', 1, true) ~= nil
end

-- The same after a release. What another program left in place of the queue or the token stops the grant, not the
-- release.
local function try_to_grant()
  if is_of_other_type('ZCARD', KEYS[3]) or is_of_other_type('GET', KEYS[2]) then
    return nil
  end
  local stored = redis.call('GET', KEYS[2])
  if not token_error(stored) then
    return grant_next(stored, redis.call('TIME'))
  end
end

-- The client that an owner belongs to.
local function client_of(owner)
  return string.match(owner, '^[^:]*')
end

-- Tells the client of an owner that it was granted the lock.
local function tell(owner, news)
  local channel = string.sub(KEYS[3], 1, -#'fair' - 1) .. 'grants:' .. client_of(owner)
  publish(channel, news)
end
