-- Grants a run of a job to one owner, or returns which run keeps the owner out: one that goes on, or one after which
-- the job or this key of it is done.
--
-- KEYS[1]  the run: HASH, see parts/run.lua; its TTL is the lease, or how long the job still counts as done
-- KEYS[2]  the history of the job: HASH, see parts/run.lua
-- KEYS[3]  the fencing token: STRING
-- KEYS[4]  the record of this key, if it is done: HASH, see parts/run.lua; absent for a run without a key
-- ARGV[1]  lease in milliseconds, 1 to 86400000
-- ARGV[2]  owner id
-- ARGV[3]  '1' to draw a token, else '0'
-- ARGV[4]  which program the owner's client is, as text; may be empty
--
-- Reply    {1, token}                                   granted; token is decimal text, or '' when off
--          {0, pttl, owner, since, took, now, client}   skipped; that run, with `took` '' while it goes on.
--                               pttl and took in milliseconds, since and now in milliseconds of the server's clock
--
-- Uses parts/lease.lua, parts/time.lua, parts/token.lua, parts/form.lua, parts/run.lua
--
-- Invariant: at most one run has the record, and no run is granted while the job or its key is done. A repeated call
-- with the same owner returns the same run. No two replies have the same token, and a later reply has a higher token.

local record, history = KEYS[1], KEYS[2]
local lease, owner, wants_token, client = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local wrong = lease_error(lease)
if wrong then
  return wrong
end
if not owner or owner == '' then
  return redis.error_reply('STEADLOCK_ARGUMENT the owner must not be empty')
end

local run, done
run, wrong = read_run(record)
if wrong then
  return wrong
end
local time = redis.call('TIME')
local now = milliseconds(time)
local is_mine = run and run.owner == owner and not run.took
if run and not is_mine then
  return held_by(run, record, now)
end
if KEYS[4] then
  done, wrong = read_run(KEYS[4])
  if wrong then
    return wrong
  elseif done then
    return held_by(done, KEYS[4], now)
  end
end

-- All checks come before the first write, because a script does not roll back.
local last = redis.call('HMGET', history, 'owner', 'ended_owner')
if not last[1] and not last[2] and redis.call('EXISTS', history) == 1 then
  return redis.error_reply('STEADLOCK_FORM a hash that is no history of a job')
end
local token = ''
if wants_token == '1' then
  local stored = redis.call('GET', KEYS[3])
  wrong = token_error(stored)
  if wrong then
    return wrong
  end
  -- A second attempt draws a new token too, because the stored one may belong to another kind of lock with this name.
  token = draw_token(KEYS[3], stored, time)
end

if is_mine then
  if redis.call('PTTL', record) < tonumber(lease) then
    redis.call('PEXPIRE', record, lease)
  end
  return {1, token}
end
local since = string.format('%.0f', now)
redis.call('HSET', record, 'owner', owner, 'since', since, 'client', client)
redis.call('PEXPIRE', record, lease)
redis.call('HSET', history, 'owner', owner, 'started', since, 'client', client)
redis.call('PEXPIRE', history, HISTORY_LIFE)
return {1, token}
