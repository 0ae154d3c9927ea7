-- Put before the scripts that put owners into the queue of the fair lock, behind parts/fair.lua.

-- Puts those at the end of the queue that are not in it, and notes that all of them live. They are
-- pairs of an owner and '1' if it wants a token, else '0'; who holds the lock does not wait.
-- Begins with PEXPIRE, so that a full server cannot refuse a place. What all share is written
-- once: a poll speaks for up to 128.
local function wait_in_line(waiters, holder, now)
  local has_queue = redis.call('PEXPIRE', KEYS[3], QUEUE_LIFE) == 1
  local last = not has_queue and 0
  local stamp, seen = string.format('%.0f ', now), {}
  for i = 1, #waiters, 2 do
    local owner = waiters[i]
    if owner ~= holder then
      if not (has_queue and redis.call('ZSCORE', KEYS[3], owner)) then
        if not last then
          last = tonumber(redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2])
          -- The clock may be set back while this runs: then the queue is over, though its TTL was just set.
          has_queue, last = last ~= nil, last or 0
        end
        last = math.max(last + 1, now)
        redis.call('ZADD', KEYS[3], last, owner)
      end
      seen[#seen + 1], seen[#seen + 2] = owner, stamp .. waiters[i + 1]
    end
  end
  if #seen > 0 then
    redis.call('HSET', KEYS[4], unpack(seen))
    redis.call('PEXPIRE', KEYS[4], QUEUE_LIFE)
    if not has_queue then
      redis.call('PEXPIRE', KEYS[3], QUEUE_LIFE)
    end
  end
end
