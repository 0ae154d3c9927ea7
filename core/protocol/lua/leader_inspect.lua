-- Returns who leads, and who would lead next. Writes nothing.
--
-- KEYS[1]  the leader: HASH {owner -> 1}; its TTL is the lease
-- KEYS[2]  the candidates: ZSET, see parts/fair.lua
-- KEYS[3]  when the server last saw each candidate: HASH, see parts/fair.lua
-- KEYS[4]  the last term: STRING, see parts/fair.lua
-- ARGV[1]  the maximum number of candidates in the reply, 0 to 100
--
-- Reply    {1, pttl, leader, number, since, candidate...}  pttl in milliseconds (-1: no TTL, -2: nobody leads); the
--                               owner id of the leader, the number of its term, and when the term began, in
--                               milliseconds of the server's clock; '' if nobody leads. Then the owner ids of the live
--                               candidates, in their order
--
-- Uses parts/form.lua
--
-- Invariant: read only.

local leader, wrong = holder_of(KEYS[1])
if wrong then
  return wrong
end
local owner, number, since = string.match(redis.call('GET', KEYS[4]) or '', '^(%S+) (%d+) (%d+)$')
if not leader or owner ~= leader then
  -- If another program has removed or overwritten the term, nobody knows its number, so nobody leads.
  leader, number, since = '', '', ''
end
local reply = {1, leader == '' and -2 or redis.call('PTTL', KEYS[1]), leader, number, since}
local most = tonumber(ARGV[1])
local waiting = most > 0 and redis.call('ZRANGE', KEYS[2], 0, most - 1) or {}
if #waiting > 0 then
  local time = redis.call('TIME')
  local earliest = time[1] * 1000000 + time[2] - 3000000
  for i, seen in ipairs(redis.call('HMGET', KEYS[3], unpack(waiting))) do
    local at = tonumber(string.match(seen or '', '^%d+'))
    if at and at >= earliest and is_owner(waiting[i]) then
      reply[#reply + 1] = waiting[i]
    end
  end
end
return reply
