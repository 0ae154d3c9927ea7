-- Extends the lease of a run that goes on. Never creates a record.
--
-- KEYS[1]  the run: HASH, see parts/run.lua
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
--
-- Reply    {1}                  renewed
--          {0}                  the record has expired or was removed, or the run has ended
--          {2}                  the record belongs to another owner
--
-- Uses parts/lease.lua, parts/keep.lua, parts/form.lua, parts/run.lua
--
-- Invariant: no record is created, the TTL of another owner's record does not change, and no TTL is shortened.

local lease, owner = ARGV[1], ARGV[2]

local wrong = lease_error(lease)
if wrong then
  return wrong
end

local run
run, wrong = read_run(KEYS[1])
if wrong then
  return wrong
elseif not run then
  return {0}
elseif run.owner ~= owner then
  return {2}
elseif run.took then
  return {0}
end
keep(KEYS[1], lease)
return {1}
