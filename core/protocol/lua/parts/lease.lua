-- Prepended to the scripts that set a TTL.

-- Returns an error if this text is not a lease in milliseconds, else nil. Scripts call this before their first write.
local function lease_error(lease)
  if not string.find(lease, '^[1-9]%d*$') or #lease > 8 or (#lease == 8 and lease > '86400000') then
    return redis.error_reply('STEADLOCK_ARGUMENT the lease must be 1 to 86400000 ms')
  end
end
