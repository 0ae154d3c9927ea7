-- Put before the scripts that draw a fencing token.
--
-- Decimal texts are compared as texts, by length first: reading them as numbers would cost more.

-- Why the stored token cannot be used; nil if it can. To be asked before the first write.
local function token_error(stored)
  if stored and not ((#stored < 16 or (#stored == 16 and stored < '9007199254740991'))
      and string.find(stored, '^%d+$')) then
    return redis.error_reply('STEADLOCK_TOKEN the stored fencing token is not a decimal below 2^53')
  end
end

-- Stores and gives a new grant's token: above the stored one, and not below the clock in microseconds.
local function draw_token(key, stored, time)
  -- Seconds, then microseconds in six digits: as text, since arithmetic would cost more.
  local token, ttl = time[1] .. string.sub('00000' .. time[2], -6), '60000'
  if stored and (#stored > #token or (#stored == #token and stored >= token)) then
    -- The key may vanish only once the clock has passed the token.
    local next_token = tonumber(stored) + 1
    ttl = string.format('%.0f', 60000 + math.ceil((next_token - tonumber(token)) / 1000))
    token = string.format('%.0f', next_token)
  end
  redis.call('SET', key, token, 'PX', ttl)
  return token
end
