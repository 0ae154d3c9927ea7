-- Prepended to the scripts that put owners into the wait queue of the fair lock, after parts/fair.lua.

-- Appends the owners that are not in the wait queue yet, and records that all of them are alive. `waiters` has pairs
-- of an owner id and '1' if the owner wants a token, else '0'. Skips the holder, because the holder does not wait.
--
-- Until a script has written something, a full server refuses its commands that need memory. The first write is
-- therefore PEXPIRE, which a full server accepts, so every waiter gets its place. All waiters share one HSET, because
-- a poll names up to 128 of them.
local function wait_in_line(waiters, holder, now)
  -- Fails here, before the first write, if another program has stored a value of another type in place of the queue.
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
  -- Written before the queue: the script fails here, and adds no place, if this key has another type.
  redis.call('HSET', KEYS[4], unpack(seen))
  redis.call('PEXPIRE', KEYS[4], QUEUE_LIFE)
  local last = not has_queue and 0
  for _, owner in ipairs(new) do
    if not last then
      last = tonumber(redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2])
      -- If the server's clock was set back during this script, the queue may have expired in spite of its new TTL.
      has_queue, last = last ~= nil, last or 0
    end
    last = math.max(last + 1, now)
    redis.call('ZADD', KEYS[3], last, owner)
  end
  if not has_queue then
    redis.call('PEXPIRE', KEYS[3], QUEUE_LIFE)
  end
end
