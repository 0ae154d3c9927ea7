-- Reads which program on which machine a client is. Writes nothing.
--
-- KEYS[1]  the client's description: STRING
--
-- Reply    {1, text}            as the client wrote it
--          {0}                  the client has stored no description, or the description has expired
--
-- Invariant: read only.

local text = redis.call('GET', KEYS[1])
if not text then
  return {0}
end
-- A description has at most 8192 bytes. A longer text belongs to another program, and its start is enough to see that.
return {1, string.sub(text, 1, 8193)}
