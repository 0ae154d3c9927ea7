-- Put before the scripts that read the permits of a semaphore, behind parts/form.lua.

-- The owner of a permit, which is a member OWNER/NUMBER; else nil and the refusal.
local function owner_of(permit)
  local owner = string.match(permit, '^(.*)/%d+$')
  if owner and is_owner(owner) then
    return owner
  end
  return nil, redis.error_reply('STEADLOCK_FORM a sorted set with a member that is no permit: '
    .. string.sub(permit, 1, MOST_TEXT))
end

-- The refusal of a limit as ZSCORE tells it; nil if it is one.
local function limit_error(text)
  local limit = tonumber(text or 0)
  if not (limit >= 1 and limit <= 1000000 and limit % 1 == 0) then
    return redis.error_reply('STEADLOCK_FORM a sorted set without a limit of permits')
  end
end

-- The refusal of a key with anything but permits, as the one that ends last and the limit show it; nil if there is
-- none.
local function permits_error(permits)
  local last = redis.call('ZRANGE', permits, -1, -1)[1]
  if not last or last == 'limit' then
    return nil
  end
  local _, wrong = owner_of(last)
  return wrong or limit_error(redis.call('ZSCORE', permits, 'limit'))
end
