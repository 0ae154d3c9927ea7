-- Put before the scripts of the read-write lock, behind parts/form.lua.
--
-- The state is a HASH:
--   writer, writer_until     who writes, and its deadline
--   mark, mark_until         a writer that waits, and until when its word counts
--   blocked_since            when such a mark first kept new readers out
--   refused                  a reader was refused during this write
--   readers_until            until then readers go before writers
-- The readers are a ZSET {owner -> deadline}. All times are ms of the server's clock.

-- How long a waiting writer's word counts.
local MARK = 2000
-- New readers are kept out for so long, then let in for as long.
local PHASE = 2000
-- How long the readers that a write kept out go before the next writer.
local READERS_FIRST = 200

-- Whether a write by pcall was refused because the server is full. Redis 6.2 puts a place
-- in the script before the code.
local function is_full(reply)
  return type(reply) == 'table' and string.find(reply.err or '', '^[^%u]*OOM ') ~= nil
end

-- The state, field by field. If the hash is no such state: an empty one and the refusal. More fields than a state has
-- are asked for, so that one that is none of them is found.
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

-- The refusal of these readers, members of the ZSET with or without scores; nil if all are owners.
local function readers_error(readers, step)
  for i = 1, #readers, step do
    if not is_owner(readers[i]) then
      local reader = string.sub(readers[i], 1, MOST_TEXT)
      return redis.error_reply('STEADLOCK_FORM a sorted set with a member that is no owner id: ' .. reader)
    end
  end
end

-- What is left at `now` of a time kept in the state.
local function left(text, now)
  return (tonumber(text) or 0) - now
end

-- The same of a time that is set at most `most` ahead. If more is left, the clock was set back since, and it is over.
local function short_left(text, now, most)
  local rest = left(text, now)
  return rest <= most and rest or 0
end
