-- Takes the simple lock for one owner, or says who has it.
--
-- KEYS[1]  the lock: STRING owner, its TTL the lease
-- KEYS[2]  the fencing token's STRING; absent when tokens are off
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1, token}           granted; token is decimal text, or '' when off
--          {0, pttl, holder}    held; pttl in milliseconds (-1: no TTL)
--
-- Uses parts/lease.lua, parts/keep.lua, parts/token.lua, parts/other_kind.lua
--
-- Invariant: a record of another owner is not written to, and asking again with
-- the same owner gives the same hold. No two replies have one token, and a later
-- one has a higher.

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
  -- Each library has owners of its own, so any text is one, and of any length.
  return {0, redis.call('PTTL', lock), string.sub(holder, 1, 256)}
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

if holder then
  keep(lock, lease)
else
  redis.call('SET', lock, owner, 'PX', lease)
end
return {1, token}
