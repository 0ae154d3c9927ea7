-- Prepended to the scripts of the fair lock, which also elect leaders.
--
-- The first keys of these scripts are
--   KEYS[1]  the lock: HASH {owner -> 1}; its TTL is the lease
--   KEYS[2]  the fencing token: STRING
--   KEYS[3]  the wait queue: ZSET {owner -> arrival, in µs of the server's clock}
--   KEYS[4]  the waiters: HASH {owner -> "<last seen, µs of the server's clock> <1 if it wants a token, else 0>"}
--   KEYS[5]  only for a leader: the last term: STRING "<owner> <token> <since, ms of the server's clock>"
--
-- Each client has one channel for each lock, on which the server announces grants to this client. The name of
-- the channel is the key of the wait queue, with the final word `fair` replaced by `grants:` and the client id.
--
-- A leader's hold is a term, and its token is the number of the term. The server announces each new term on the channel
-- whose name is KEYS[5] and `-channel`.

-- A waiter is dead when the server has received no call for it for this long; in microseconds.
local WAITER_LIFE = 3000000
-- The TTL of a grant to a waiter, in milliseconds. The TTL is short because the waiter may have died; a live waiter
-- extends it by a renewal.
local PROVISIONAL = 3000
-- The TTL of the wait queue, in milliseconds. A queue that no call has touched for this long has only dead waiters.
local QUEUE_LIFE = 30000
-- The maximum number of dead waiters that one call skips. After that many, the call leaves the lock free, and a client
-- that waits for the lock calls again at once.
local MOST_DEAD = 32
-- How long the last term stays known, in milliseconds: 30 days.
local TERM_LIFE = 2592000000

local function microseconds(time)
  return time[1] * 1000000 + time[2]
end

-- Draws the token of a grant to an owner. For a leader, also stores and announces the new term.
local function draw(owner, stored, time)
  local token = draw_token(KEYS[2], stored, time)
  if KEYS[5] then
    local since = string.format('%.0f', math.floor(microseconds(time) / 1000))
    redis.call('SET', KEYS[5], owner .. ' ' .. token .. ' ' .. since, 'PX', TERM_LIFE)
    publish(KEYS[5] .. '-channel', token)
  end
  return token
end

-- Returns the token of an owner that holds the lock already. Draws a new one, because the stored one may belong to
-- another kind of lock with this name; but a term keeps its number, because others may have seen it.
local function draw_again(owner, stored, time)
  local term = KEYS[5] and redis.pcall('GET', KEYS[5])
  if type(term) == 'string' then
    local leader, number = string.match(term, '^(%S+) (%d+) ')
    if leader == owner then
      return number
    end
  end
  return draw(owner, stored, time)
end

-- Grants the lock, which must be free, to the first live waiter. Returns the waiter's owner id, the grant message for
-- its client ("<owner> <last seen> <token>") and the token; returns nil if no live waiter is among the first MOST_DEAD
-- members. Skips dead waiters, and members that are not owner ids. Also skips a waiter whose last-seen time is ahead of
-- the clock, because the clock was set back since then: its client would not trust a grant message with such a time.
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
      local token = wants_token == '1' and draw(owner, stored, time) or ''
      redis.call('HSET', KEYS[1], owner, '1')
      redis.call('PEXPIRE', KEYS[1], PROVISIONAL)
      return owner, owner .. ' ' .. seen .. ' ' .. token, token
    end
  end
end

-- Returns whether this read command fails because the key has a value of another type. Redis 6.2 reports the failure
-- as a text that begins with a position in the script, and later versions report a table.
local function is_of_other_type(command, key)
  local is_read, failure = pcall(redis.call, command, key)
  failure = type(failure) == 'table' and failure.err or failure
  return not is_read and string.find(tostring(failure), 'WRONGTYPE', 1, true) ~= nil
end

-- Grants the lock to the first live waiter after a release or a forced release. Grants nothing if another program has
-- overwritten the wait queue or the token; the release itself must not fail for that reason.
local function try_to_grant()
  if is_of_other_type('ZCARD', KEYS[3]) or is_of_other_type('GET', KEYS[2]) then
    return nil
  end
  local stored = redis.call('GET', KEYS[2])
  if not token_error(stored) then
    return grant_next(stored, redis.call('TIME'))
  end
end

-- Returns the id of the client that made this owner id.
local function client_of(owner)
  return string.match(owner, '^[^:]*')
end

-- Publishes a grant message to the client of an owner.
local function tell(owner, message)
  local channel = string.sub(KEYS[3], 1, -#'fair' - 1) .. 'grants:' .. client_of(owner)
  publish(channel, message)
end
