-- Put before the scripts that put owners into the queue of the fair lock, behind parts/fair.lua.

-- Puts those at the end of the queue that are not in it, and notes that all of them live. They are
-- pairs of an owner and '1' if it wants a token, else '0'; who holds the lock does not wait.
-- Its first write is PEXPIRE, so that a full server cannot refuse a place. What all share is written
-- once: a poll speaks for up to 128.
local function wait_in_line(waiters, holder, now)
  -- Before the first write: a key of another type in place of the queue is an error here.
  local first = waiters[1] and redis.call('ZSCORE', KEYS[3], waiters[1])
  local has_queue = redis.call('PEXPIRE', KEYS[3], QUEUE_LIFE) == 1
  local stamp, seen, new = string.format('%.0f ', now), {}, {}
  for i = 1, #waiters, 2 do
    local owner = waiters[i]
    if owner ~= holder then
      local place = has_queue and first
      if i > 1 then
        place = has_queue and redis.call('ZSCORE', KEYS[3], owner)
      end
      if not place then
        new[#new + 1] = owner
      end
      seen[#seen + 1], seen[#seen + 2] = owner, stamp .. waiters[i + 1]
    end
  end
  if #seen == 0 then
    return
  end
  -- Before the places: of another type, it is an error here.
  redis.call('HSET', KEYS[4], unpack(seen))
  redis.call('PEXPIRE', KEYS[4], QUEUE_LIFE)
  local last = not has_queue and 0
  for _, owner in ipairs(new) do
    if not last then
      last = tonumber(redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2])
      -- The clock may be set back while this runs: then the queue is over, though its TTL was just set.
      has_queue, last = last ~= nil, last or 0
    end
    last = math.max(last + 1, now)
    redis.call('ZADD', KEYS[3], last, owner)
  end
  if not has_queue then
    redis.call('PEXPIRE', KEYS[3], QUEUE_LIFE)
  end
end
