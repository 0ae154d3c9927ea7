-- Acquires the read side of a read-write lock for one owner, or returns which writer prevents that.
--
-- KEYS[1]  the state: HASH, see parts/read_write.lua
-- KEYS[2]  the readers: ZSET {owner -> deadline}
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
-- ARGV[3]  '1' if the owner waits when it is refused, else '0'
-- ARGV[4]  the owner id of the write hold inside which the caller reads; '' if none
--
-- Reply    {1, ''}              granted
--          {0, left, holder}    a writer holds the lock, or waits; `left` in milliseconds
--
-- Uses parts/lease.lua, parts/time.lua, parts/form.lua, parts/read_write.lua
--
-- Invariant: no reader is granted the lock during a write, unless the reader is inside this write. Every key that this
-- script writes has a TTL.

local state, readers = KEYS[1], KEYS[2]
local lease, owner, waits, writer_around = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4]

local wrong = lease_error(lease)
if wrong then
  return wrong
end

local now = milliseconds(redis.call('TIME'))
local pttl = redis.call('PTTL', readers)
if pttl == -2 or left(redis.call('ZSCORE', readers, owner), now) <= 0 then
  local s
  s, wrong = read_state(state)
  if wrong then
    return wrong
  end
  local writing = left(s.writer_until, now)
  if writing > 0 and s.writer ~= writer_around then
    if waits then
      -- A full server does not store this flag; the caller still learns which writer holds the lock.
      local marked = redis.pcall('HSET', state, 'refused', '1')
      if type(marked) == 'table' and not is_full(marked) then
        return marked
      end
    end
    return {0, writing, s.writer or ''}
  end
  local marked = short_left(s.mark_until, now, MARK)
  -- `blocked_since` is in the future only if the clock was set back. Readers are then not blocked until a writer sets
  -- `blocked_since` again.
  local blocked = left(s.blocked_since, now) <= 0 and left(s.blocked_since, now) + PHASE or 0
  if writing <= 0 and marked > 0 and blocked > 0 and short_left(s.readers_until, now, READERS_FIRST) <= 0 then
    return {0, math.min(marked, blocked), s.mark or ''}
  end
end

if pttl ~= -2 then
  local first = redis.call('ZRANGE', readers, 0, 0, 'WITHSCORES')
  wrong = readers_error(first, 2)
  if not wrong and first[2] and tonumber(first[2]) <= now then
    local ended = redis.call('ZRANGEBYSCORE', readers, '-inf', now, 'LIMIT', 0, 64)
    wrong = readers_error(ended, 1)
    if not wrong then
      redis.call('ZREM', readers, unpack(ended))
      -- If all readers had expired, the key no longer exists, and a new one has no TTL.
      pttl = redis.call('PTTL', readers)
    end
  end
  if wrong then
    return wrong
  end
end
redis.call('ZADD', readers, 'GT', now + lease, owner)
-- The TTL is never shortened: other readers may need it, and this call may run late.
if pttl < tonumber(lease) then
  redis.call('PEXPIRE', readers, lease)
end
return {1, ''}
