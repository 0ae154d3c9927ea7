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
return {1, text}
