-- Prepended to the scripts that read a record which another program may have written.
--
-- A key counts as a lock only if it has the form of a lock: the right type, number of fields, owner ids and numbers.
-- The scripts refuse everything else with STEADLOCK_FORM and a description of the value. A script that grants a lock
-- checks the form before it writes the hold. Each function in this file adds about 60 ns to every call of these
-- scripts, so there are few of them.

-- The maximum number of bytes of another program's text that a script returns. An owner id has at most 57 bytes.
local MOST_TEXT = 256

-- Returns whether a text is an owner id of Steadlock or of Redisson: a UUID, a colon and a number.
local function is_owner(text)
  return #text <= 57 and string.find(text, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-'
    .. '%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+$') ~= nil
end

-- Returns the holder of a `lock` or `fair_lock`; nil if the lock is free; nil and an error if the key is not such a
-- record. Reads at most two fields, at random, because the hash of another program may have millions of fields. The
-- error is STEADLOCK_KIND if the key is a STRING with an owner id, because a `mutex` then has this name.
local function holder_of(lock)
  local record = redis.pcall('HRANDFIELD', lock, 2, 'WITHVALUES')
  local holder, count = record[1], record[2]
  if record.err then
    local text = redis.pcall('GET', lock)
    if type(text) == 'string' and is_owner(text) then
      record = redis.error_reply('STEADLOCK_KIND mutex')
    end
    return nil, record
  elseif not holder then
    return nil
  elseif #record == 2 and is_owner(holder) and #count <= 15 and string.find(count, '^[1-9]%d*$') then
    return holder
  end
  local found = 'a hash of several fields'
  if #record == 2 then
    found = is_owner(holder) and 'a hash whose value is not a count of holds'
      or 'a hash whose field is not an owner id: ' .. string.sub(holder, 1, MOST_TEXT)
  end
  return nil, redis.error_reply('STEADLOCK_FORM ' .. found)
end
