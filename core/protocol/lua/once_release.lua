-- Ends one owner's run of a job. The record of the run then says for a while that the job is done, or is removed.
--
-- KEYS[1]  the run: HASH, see parts/run.lua
-- KEYS[2]  the history of the job: HASH, see parts/run.lua
-- KEYS[3]  the record that says that the key is done: HASH, see parts/run.lua; absent for a run without a key
-- ARGV[1]  owner id
-- ARGV[2]  how the run ended: 'succeeded', 'failed', or 'unused' if the job never began
-- ARGV[3]  for how long after its start the job counts as done, in milliseconds; 0 if it does not
-- ARGV[4]  for how long from now the key counts as done, in milliseconds; 0 if it does not
--
-- Reply    {1}                  the run of this owner ended, by this call or an earlier one
--          {0}                  no run has the record
--          {2}                  the record belongs to another owner
--
-- Uses parts/time.lua, parts/form.lua, parts/run.lua
--
-- Invariant: no other owner's run changes. The first write is one that a full server accepts. If another program has
-- overwritten the history or the record of the key, the run ends all the same, and that value is left alone.

local record, history, done = KEYS[1], KEYS[2], KEYS[3]
local owner, outcome, at_least, keep = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local run, wrong = read_run(record)
if wrong then
  return wrong
end
local now = milliseconds(redis.call('TIME'))

-- Writes fields, and then a TTL, unless the key has a value of another type.
local function write(key, ttl, ...)
  local written = redis.pcall('HSET', key, ...)
  if type(written) == 'number' then
    redis.call('PEXPIRE', key, ttl)
  end
end

if not run or run.owner ~= owner then
  local last = redis.pcall('HMGET', history, 'owner', 'started', 'ended_owner', 'client', 'outcome')
  if last[3] == owner then
    if last[5] ~= 'lost' then
      return {1}
    end
  elseif last[1] == owner and outcome ~= 'unused' then
    -- The lease ended before the run did. The history says so unless another run has begun since then.
    local took = string.format('%.0f', math.max(now - tonumber(last[2]), 0))
    write(history, HISTORY_LIFE, 'ended_owner', owner, 'ended', string.format('%.0f', now), 'took', took,
      'outcome', 'lost', 'ended_client', last[4])
  end
  return run and {2} or {0}
elseif run.took then
  return {1}
end

local took = string.format('%.0f', math.max(now - run.since, 0))
-- The clock may have been set back since the start, so the time that is left is bounded.
local left = math.min(run.since + at_least - now, at_least)
if left > 0 then
  redis.call('PEXPIRE', record, string.format('%.0f', left))
  redis.call('HSET', record, 'took', took)
else
  redis.call('DEL', record)
end
if outcome == 'unused' then
  local last = redis.pcall('HGET', history, 'owner')
  if last == owner then
    redis.call('HDEL', history, 'owner', 'started', 'client')
  end
  return {1}
end
if done and keep > 0 then
  write(done, ARGV[4], 'owner', owner, 'since', run.since, 'took', took, 'client', run.client)
end
local ended = string.format('%.0f', now)
write(history, HISTORY_LIFE, 'ended_owner', owner, 'ended', ended, 'took', took, 'outcome', outcome,
  'ended_client', run.client)
if outcome == 'succeeded' then
  redis.pcall('HSET', history, 'succeeded', ended)
end
return {1}
