-- Prepended to the scripts of the read-write lock, after parts/form.lua.
--
-- The state is a HASH:
--   writer, writer_until     the owner id of the writer that holds the lock, and its deadline
--   mark, mark_until         the owner id of a waiting writer, and when its mark expires; a mark blocks new readers
--                            for a while (PHASE)
--   blocked_since            when marks began to block new readers
--   refused                  '1' if a reader was refused during this write
--   readers_until            until when readers have precedence over writers
-- The readers are a ZSET {owner -> deadline}. All times are milliseconds of the server's clock.

-- How long the mark of a waiting writer is valid, in milliseconds.
local MARK = 2000
-- Marks block new readers for this many milliseconds, then let them in for as long, and so on.
local PHASE = 2000
-- How long readers have precedence after a write during which readers were refused, in milliseconds.
local READERS_FIRST = 200

-- Returns whether a write by pcall was refused because the server is full. Redis 6.2 puts a position in the script
-- before the error code.
local function is_full(reply)
  return type(reply) == 'table' and string.find(reply.err or '', '^[^%u]*OOM ') ~= nil
end

-- Reads the state into a table by field. Returns an empty table and an error if the hash is not such a state. A state
-- has at most seven fields; reading eight finds at least one unknown field in any larger hash.
local function read_state(state)
  local found, s = redis.call('HRANDFIELD', state, 8, 'WITHVALUES'), {}
  for i = 1, #found, 2 do
    local field, value = found[i], found[i + 1]
    local is_valid = false
    if field == 'writer' or field == 'mark' then
      is_valid = is_owner(value)
    elseif field == 'refused' then
      is_valid = value == '1'
    elseif field == 'writer_until' or field == 'mark_until' or field == 'readers_until' or field == 'blocked_since' then
      is_valid = #value <= 15 and string.find(value, '^%d+$')
    end
    if not is_valid then
      return {}, redis.error_reply('STEADLOCK_FORM a hash with fields or values that a state has not')
    end
    s[field] = value
  end
  return s
end

-- Returns an error if one of these readers is not an owner id, else nil. `readers` lists members of the ZSET, alone
-- (`step` 1) or with their scores (`step` 2).
local function readers_error(readers, step)
  for i = 1, #readers, step do
    if not is_owner(readers[i]) then
      local reader = string.sub(readers[i], 1, MOST_TEXT)
      return redis.error_reply('STEADLOCK_FORM a sorted set with a member that is no owner id: ' .. reader)
    end
  end
end

-- Returns how many milliseconds after `now` a time of the state is. The result is not positive if the time has passed,
-- and `-now` if there is no such time.
local function left(text, now)
  return (tonumber(text) or 0) - now
end

-- Returns what `left` returns, for a time that is never set more than `most` milliseconds ahead. Returns 0 if more is
-- left: the clock was set back in the meantime, and the time counts as passed.
local function short_left(text, now, most)
  local rest = left(text, now)
  return rest <= most and rest or 0
end
