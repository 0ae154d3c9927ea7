-- Returns which run of a job keeps others out. Writes nothing.
--
-- KEYS[1]  the run: HASH, see parts/run.lua
--
-- Reply    {0, pttl, owner, since, took, now, client}   that run, with `took` '' while it goes on. pttl and took in
--                               milliseconds, since and now in milliseconds of the server's clock
--          {1}                  none
--
-- Uses parts/time.lua, parts/form.lua, parts/run.lua
--
-- Invariant: read only.

local run, wrong = read_run(KEYS[1])
if wrong then
  return wrong
elseif not run then
  return {1}
end
return held_by(run, KEYS[1], milliseconds(redis.call('TIME')))
