-- Acquires the simple lock for one owner, or returns who holds it.
--
-- KEYS[1]  the lock: STRING owner; its TTL is the lease
-- KEYS[2]  the fencing token: STRING; absent when tokens are off
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1, token}           granted; token is decimal text, or '' when off
--          {0, pttl, holder}    held; pttl in milliseconds (-1: no TTL)
--
-- Uses parts/lease.lua, parts/keep.lua, parts/token.lua, parts/other_kind.lua
--
-- Invariant: another owner's record is not changed. A repeated call with the same owner returns the same hold. No two
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

local holder = redis.pcall('GET', lock)
if type(holder) == 'table' then
  return other_kind(lock, holder)
end
if holder and holder ~= owner then
  -- Each library has its own form of owner ids, so any text of any length counts as one.
  return {0, redis.call('PTTL', lock), string.sub(holder, 1, 256)}
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

if holder then
  keep(lock, lease)
else
  redis.call('SET', lock, owner, 'PX', lease)
end
return {1, token}
