-- Put before the scripts that make a key last longer.

-- Makes a key last `ttl` milliseconds. Never shorter than it does: a call may run late, after a longer one.
local function keep(key, ttl)
  if redis.call('PTTL', key) < tonumber(ttl) then
    redis.call('PEXPIRE', key, ttl)
  end
end
