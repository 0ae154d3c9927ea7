-- Acquires the write side of a read-write lock for one owner, or returns which holder prevents that.
--
-- KEYS[1]  the state: HASH, see parts/read_write.lua
-- KEYS[2]  the readers: ZSET {owner -> deadline}
-- KEYS[3]  the fencing token: STRING; absent when tokens are off
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
-- ARGV[3]  '1' if the owner waits when it is refused, else '0'
--
-- Reply    {1, token}           granted; token is decimal text, or '' when off
--          {0, left, holder}    another owner writes or reads, or 'readers that waited' come first; `left` in ms
--
-- Uses parts/lease.lua, parts/keep.lua, parts/time.lua, parts/token.lua, parts/form.lua, parts/read_write.lua
--
-- Invariant: no writer is granted the lock while another owner reads or writes. Every key that this script writes has a
-- TTL. A repeated call with the same owner returns the same hold. No two replies have the same token, and a later reply
-- has a higher token.

local state, readers, token_key = KEYS[1], KEYS[2], KEYS[3]
local lease, owner, waits = ARGV[1], ARGV[2], ARGV[3] == '1'

local wrong = lease_error(lease)
if wrong then
  return wrong
end

local time = redis.call('TIME')
local now = milliseconds(time)
local s
s, wrong = read_state(state)
if wrong then
  return wrong
end
local writing = left(s.writer_until, now)
local mine = writing > 0 and s.writer == owner

local last
if not mine then
  local refusal
  if writing > 0 then
    refusal = {0, writing, s.writer or ''}
  else
    last = redis.call('ZRANGE', readers, -1, -1, 'WITHSCORES')
    wrong = readers_error(last, 2)
    if wrong then
      return wrong
    end
    if left(last[2], now) > 0 then
      refusal = {0, left(last[2], now), last[1]}
    elseif short_left(s.readers_until, now, READERS_FIRST) > 0 then
      refusal = {0, left(s.readers_until, now), 'readers that waited'}
    end
  end
  if refusal then
    if waits then
      -- A full server refuses this mark; the caller still learns which holder prevents the grant.
      local marked = redis.pcall('HSET', state, 'mark', owner, 'mark_until', now + MARK)
      if type(marked) == 'number' then
        local since = -left(s.blocked_since, now)
        if since < 0 or since >= 2 * PHASE then
          redis.call('HSET', state, 'blocked_since', now)
        end
        keep(state, 2 * PHASE)
      elseif not is_full(marked) then
        return marked
      end
    end
    return refusal
  end
end

-- All checks come before the first write, because a script does not roll back.
local token = ''
if token_key then
  local stored = redis.call('GET', token_key)
  wrong = token_error(stored)
  if wrong then
    return wrong
  end
  -- A second attempt draws a new token too, because the stored one may belong to another kind of lock with this name.
  token = draw_token(token_key, stored, time)
end

redis.call('HSET', state, 'writer', owner, 'writer_until', now + math.max(tonumber(lease), mine and writing or 0))
keep(state, math.max(tonumber(lease), 2 * PHASE))
if not mine then
  if s.blocked_since or s.readers_until then
    redis.call('HDEL', state, 'blocked_since', 'readers_until')
  end
  if last[1] then
    -- The holds of all readers have expired; a read inside this write can only come later.
    redis.call('DEL', readers)
  end
end
if s.mark == owner then
  redis.call('HDEL', state, 'mark', 'mark_until')
end
return {1, token}
