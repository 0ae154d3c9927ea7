-- Returns the last runs of a job. Writes nothing.
--
-- KEYS[1]  the run: HASH, see parts/run.lua
-- KEYS[2]  the history of the job: HASH, see parts/run.lua
--
-- Reply    {1, state, started, client, ended, took, outcome, ended_client, succeeded}
--                               the run that began last, with its state; the run that ended last; when a run last
--                               ended well. state is 'running', 'ended', or 'crashed' for a run whose end nobody
--                               reported before its lease was over. A missing part is ''. took in milliseconds, the
--                               times in milliseconds of the server's clock
--          {0}                  the server has no history of this job
--
-- Uses parts/form.lua, parts/run.lua
--
-- Invariant: read only.

local run, wrong = read_run(KEYS[1])
if wrong then
  return wrong
end
local found = redis.call('HMGET', KEYS[2], 'owner', 'ended_owner', 'started', 'client', 'ended', 'took', 'outcome',
  'ended_client', 'succeeded')
local owner, ended_owner = found[1], found[2]
if not owner and not ended_owner then
  return {0}
end
local state = 'crashed'
if run and not run.took and run.owner == owner then
  state = 'running'
elseif not owner or owner == ended_owner then
  state = 'ended'
end
local reply = {1, state}
for i = 3, 9 do
  reply[i] = found[i] or ''
end
return reply
