-- Put before the scripts of the `mutex` that others than its owner run.

-- The refusal of a key that cannot be read as a STRING. Of a HASH of one field it says the field: that is an owner if a
-- `lock` or a `fair_lock` has the name.
local function other_kind(lock, refusal)
  local fields = redis.pcall('HRANDFIELD', lock, 2)
  return #fields == 1 and redis.error_reply('STEADLOCK_KIND ' .. string.sub(fields[1], 1, 256)) or refusal
end
