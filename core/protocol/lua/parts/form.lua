-- Put before the scripts that read a record that another program may have written.
--
-- A key is a lock only if its form is a lock's: its type, how many fields it has, its owners and its
-- numbers. Everything else is refused with STEADLOCK_FORM and what was found, before anything is
-- written. Each function here costs every call of these scripts some 60 ns, so there are few.

-- The most bytes of another program's text that a script returns. An owner id has 57 at the most.
local MOST_TEXT = 256

-- Whether a text is an owner id, ours or Redisson's: a UUID, a colon and a number.
local function is_owner(text)
  return #text <= 57 and string.find(text, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-'
    .. '%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+$') ~= nil
end

-- The holder of a `lock` or `fair_lock`; nil if nobody holds it. If the hash is no such record: nil and the refusal.
-- Two fields are asked for, at random, as a hash of any other program may have millions. The refusal of
-- a STRING with an owner id is STEADLOCK_KIND: a `mutex` has the name.
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
