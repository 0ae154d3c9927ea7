-- Says which program on which machine a client is. Writes nothing.
--
-- KEYS[1]  the client's: STRING
--
-- Reply    {1, text}            as the client wrote it
--          {0}                  it says nothing, or not any more
--
-- Invariant: read only.

local text = redis.call('GET', KEYS[1])
if not text then
  return {0}
end
-- A client's is shorter; what is longer is not one, and need not be sent whole.
return {1, string.sub(text, 1, 8193)}
