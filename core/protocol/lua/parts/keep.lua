-- Prepended to the scripts that extend the TTL of a key.

-- Extends the TTL of a key to `ttl` milliseconds. Never shortens the TTL, because this call may run late, after one
-- that has set a longer TTL.
local function keep(key, ttl)
  if redis.call('PTTL', key) < tonumber(ttl) then
    redis.call('PEXPIRE', key, ttl)
  end
end
