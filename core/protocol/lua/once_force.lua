-- Removes the record of a run, no matter who runs the job, and also if it only says that the job is done.
--
-- KEYS[1]  the run: HASH, see parts/run.lua
--
-- Reply    {1}                  removed
--          {0}                  there was no record
--
-- Uses parts/form.lua, parts/run.lua
--
-- Invariant: nothing but a run is removed.

local run, wrong = read_run(KEYS[1])
if wrong then
  return wrong
elseif not run then
  return {0}
end
redis.call('DEL', KEYS[1])
return {1}
