-- Takes the reentrant lock for one owner, or says who has it.
--
-- KEYS[1]  the lock: HASH {owner -> 1}, its TTL the lease
-- KEYS[2]  the fencing token's STRING; absent when tokens are off
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1, token}           granted; token is decimal text, or '' when off
--          {0, pttl, holder}    held; pttl in milliseconds (-1: no TTL)
--
-- Uses parts/lease.lua, parts/token.lua, parts/form.lua
--
-- Invariant: a lock key written here has a TTL, and asking again with the same
-- owner gives the same hold, never a second one and never a shorter one: an
-- attempt that was cut off may run after later renewals. No two replies have one
-- token, and a later one has a higher.

local lock, token_key = KEYS[1], KEYS[2]
local lease, owner = ARGV[1], ARGV[2]

local wrong = lease_error(lease)
if wrong then
  return wrong
end
if not owner or owner == '' then
  return redis.error_reply('STEADLOCK_ARGUMENT the owner must not be empty')
end

local mine = false
local pttl = redis.call('PTTL', lock)
if pttl ~= -2 then
  local holder
  holder, wrong = holder_of(lock)
  if wrong then
    return wrong
  end
  mine = holder == owner
  if not mine then
    return {0, pttl, holder or ''}
  end
end

-- Everything is checked before the first write: a script does not roll back.
local token = ''
if token_key then
  local stored = redis.call('GET', token_key)
  wrong = token_error(stored)
  if wrong then
    return wrong
  end
  -- A second attempt draws one, too: what is stored may be that of another kind of this name.
  token = draw_token(token_key, stored, redis.call('TIME'))
end

if not mine then
  redis.call('HSET', lock, owner, '1')
end
-- Never shorter: this call may run late, after a renewal.
if pttl < tonumber(lease) then
  local expire = redis.pcall('PEXPIRE', lock, lease)
  if type(expire) == 'table' and expire.err then
    if not mine then
      redis.call('DEL', lock)
    end
    return expire
  end
end
return {1, token}
