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
-- Invariant: a lock key written here has a TTL, and asking again with the same
-- owner gives the same hold and the same token, never a second one and never a
-- shorter one: an attempt that was cut off may run after later renewals.

-- Decimal texts are compared as texts, by length first: to read them as numbers
-- would cost more.

local lock, token_key = KEYS[1], KEYS[2]
local lease, owner = ARGV[1], ARGV[2]

if not string.find(lease, '^[1-9]%d*$') or #lease > 8 or (#lease == 8 and lease > '86400000') then
  return redis.error_reply('LEASEHOLD_ARGUMENT the lease must be 1 to 86400000 ms')
end
if not owner or owner == '' then
  return redis.error_reply('LEASEHOLD_ARGUMENT the owner must not be empty')
end

local mine = false
local pttl = redis.call('PTTL', lock)
if pttl ~= -2 then
  mine = redis.call('HEXISTS', lock, owner) == 1
  if not mine then
    return {0, pttl, redis.call('HRANDFIELD', lock) or ''}
  end
end

-- Everything is checked before the first write: a script does not roll back.
local token, token_ttl = '', nil
if token_key then
  local stored = redis.call('GET', token_key)
  if stored and not (string.find(stored, '^%d+$')
      and (#stored < 16 or (#stored == 16 and stored < '9007199254740991'))) then
    return redis.error_reply('LEASEHOLD_TOKEN the stored fencing token is not a decimal below 2^53')
  end
  if mine and stored then
    token = stored
  else
    local time = redis.call('TIME')
    -- Seconds, then microseconds in six digits: as text, since arithmetic would cost more.
    token, token_ttl = time[1] .. string.sub('00000' .. time[2], -6), '60000'
    if stored and (#stored > #token or (#stored == #token and stored >= token)) then
      -- The key may vanish only once the clock has passed the token.
      local next_token = tonumber(stored) + 1
      token_ttl = string.format('%.0f', 60000 + math.ceil((next_token - tonumber(token)) / 1000))
      token = string.format('%.0f', next_token)
    end
  end
end

if token_ttl then
  redis.call('SET', token_key, token, 'PX', token_ttl)
end
if not mine then
  redis.call('HSET', lock, owner, '1')
end
local expire = 1
if not mine or pttl < tonumber(lease) then
  expire = redis.pcall('PEXPIRE', lock, lease)
end
if type(expire) == 'table' and expire.err then
  if not mine then
    redis.call('DEL', lock)
  end
  return expire
end
return {1, token}
