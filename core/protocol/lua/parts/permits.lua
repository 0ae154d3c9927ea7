-- Prepended to the scripts that read the permits of a semaphore, after parts/form.lua.

-- Returns the owner id of a permit, which is a member OWNER/NUMBER; nil and an error if the member is not a permit.
local function owner_of(permit)
  local owner = string.match(permit, '^(.*)/%d+$')
  if owner and is_owner(owner) then
    return owner
  end
  return nil, redis.error_reply('STEADLOCK_FORM a sorted set with a member that is no permit: '
    .. string.sub(permit, 1, MOST_TEXT))
end

-- Returns an error if this reply of ZSCORE is not a valid limit, else nil.
local function limit_error(text)
  local limit = tonumber(text or 0)
  if not (limit >= 1 and limit <= 1000000 and limit % 1 == 0) then
    return redis.error_reply('STEADLOCK_FORM a sorted set without a limit of permits')
  end
end

-- Returns an error if the key holds anything but permits, else nil. Checks only the last member, which is the permit
-- that expires last, and the limit.
local function permits_error(permits)
  local last = redis.call('ZRANGE', permits, -1, -1)[1]
  if not last or last == 'limit' then
    return nil
  end
  local _, wrong = owner_of(last)
  return wrong or limit_error(redis.call('ZSCORE', permits, 'limit'))
end
