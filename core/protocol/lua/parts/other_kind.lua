-- Prepended to the scripts of the `mutex` that callers run without holding the lock.

-- Returns the error for a key that cannot be read as a STRING. The error is STEADLOCK_KIND if the key is a HASH of one
-- owner id, because a `lock` or `fair_lock` then has this name; otherwise the error is `refusal`.
local function other_kind(lock, refusal)
  local fields = redis.pcall('HRANDFIELD', lock, 2)
  if #fields == 1 and #fields[1] <= 57 and string.find(fields[1], '^%x+%-%x+%-%x+%-%x+%-%x+:%-?%d+$') then
    return redis.error_reply('STEADLOCK_KIND lock')
  end
  return refusal
end
