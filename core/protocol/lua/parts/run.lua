-- Prepended to the scripts of jobs, after parts/form.lua.
--
-- A run is a HASH, and so is the record of a key that is done:
--   owner    the owner id of the run
--   since    when the run began
--   took     how long the run took; missing while it goes on
--   client   which program runs or ran the job, as text; may be empty
--
-- The history of a job is a HASH:
--   owner, started, client                              the run that began last
--   ended_owner, ended, took, outcome, ended_client     the run that ended last
--   succeeded                                           when a run last ended well
--
-- Times are milliseconds: `since`, `started`, `ended` and `succeeded` by the server's clock, `took` as a length.

-- The TTL of a history, in milliseconds: 30 days.
local HISTORY_LIFE = 2592000000

-- Returns whether a text is a number of milliseconds.
local function is_milliseconds(text)
  return #text <= 15 and string.find(text, '^%d+$') ~= nil
end

-- Returns the run at a key as a table of its fields; nil if there is none; nil and an error if the key is not a run.
local function read_run(key)
  local found = redis.call('HMGET', key, 'owner', 'since', 'took', 'client')
  local owner, since, took, client = found[1], found[2], found[3], found[4]
  if owner and since and client and is_owner(owner) and is_milliseconds(since)
      and (not took or is_milliseconds(took)) then
    return {owner = owner, since = since, took = took, client = client}
  elseif not owner and redis.call('PTTL', key) == -2 then
    -- Not EXISTS: operators and watchers read runs too, and may not use it.
    return nil
  end
  return nil, redis.error_reply('STEADLOCK_FORM a hash that is no run of a job')
end

-- Returns the reply for a run that keeps a caller out.
local function held_by(run, key, now)
  return {0, redis.call('PTTL', key), run.owner, run.since, run.took or '', string.format('%.0f', now), run.client}
end
