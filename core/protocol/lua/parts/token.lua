-- Prepended to the scripts that draw a fencing token.
--
-- The scripts compare decimal numbers as texts, by length first, because converting them to numbers would cost more.

-- Returns an error if the stored token cannot be used, else nil. Scripts call this before their first write.
local function token_error(stored)
  if stored and not ((#stored < 16 or (#stored == 16 and stored < '9007199254740991'))
      and string.find(stored, '^%d+$')) then
    return redis.error_reply('STEADLOCK_TOKEN the stored fencing token is not a decimal below 2^53')
  end
end

-- Draws, stores and returns the token of a new grant. The token is higher than the stored one, and not lower than the
-- server's clock in microseconds.
local function draw_token(key, stored, time)
  -- Joins the seconds and six digits of microseconds as text, because arithmetic would cost more.
  local token, ttl = time[1] .. string.sub('00000' .. time[2], -6), '60000'
  if stored and (#stored > #token or (#stored == #token and stored >= token)) then
    -- The key must not expire before the clock has passed the token: later tokens must be higher.
    local next_token = tonumber(stored) + 1
    ttl = string.format('%.0f', 60000 + math.ceil((next_token - tonumber(token)) / 1000))
    token = string.format('%.0f', next_token)
  end
  redis.call('SET', key, token, 'PX', ttl)
  return token
end
