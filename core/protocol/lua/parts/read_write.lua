-- Put before the scripts of the read-write lock.
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

-- What is left at `now` of a time kept in the state.
local function left(text, now)
  return (tonumber(text) or 0) - now
end

-- The same of a time that is set at most `most` ahead. If more is left, the clock was set back since, and it is over.
local function short_left(text, now, most)
  local rest = left(text, now)
  return rest <= most and rest or 0
end
