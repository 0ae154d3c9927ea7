-- Put before the scripts of the `mutex` that others than its owner run.

-- The refusal of a key that cannot be read as a STRING. It is STEADLOCK_KIND for a HASH of one owner id: a `lock` or a
-- `fair_lock` has the name.
local function other_kind(lock, refusal)
  local fields = redis.pcall('HRANDFIELD', lock, 2)
  if #fields == 1 and #fields[1] <= 57 and string.find(fields[1], '^%x+%-%x+%-%x+%-%x+%-%x+:%-?%d+$') then
    return redis.error_reply('STEADLOCK_KIND lock')
  end
  return refusal
end
