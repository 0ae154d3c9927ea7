-- Acquires the reentrant lock for one owner, or returns who holds it.
--
-- KEYS[1]  the lock: HASH {owner -> 1}; its TTL is the lease
-- KEYS[2]  the fencing token: STRING; absent when tokens are off
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1, token}           granted; token is decimal text, or '' when off
--          {0, pttl, holder}    held; pttl in milliseconds (-1: no TTL)
--
-- Uses parts/lease.lua, parts/token.lua, parts/form.lua
--
-- Invariant: a lock key that this script writes has a TTL. A repeated call with the same owner returns the same hold,
-- never a second one and never a shorter one, because an attempt that was cut off may run after later renewals. No two
-- replies have the same token, and a later reply has a higher token.

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

-- All checks come before the first write, because a script does not roll back.
local token = ''
if token_key then
  local stored = redis.call('GET', token_key)
  wrong = token_error(stored)
  if wrong then
    return wrong
  end
  -- A second attempt draws a new token too, because the stored one may belong to another kind of lock with this name.
  token = draw_token(token_key, stored, redis.call('TIME'))
end

if not mine then
  redis.call('HSET', lock, owner, '1')
end
-- The TTL is never shortened, because this call may run late, after a renewal.
if pttl < tonumber(lease) then
  local expire = redis.pcall('PEXPIRE', lock, lease)
  if type(expire) == 'table' and expire.err then
    -- A new record is removed: it would have no TTL.
    if not mine then
      redis.call('DEL', lock)
    end
    return expire
  end
end
return {1, token}
