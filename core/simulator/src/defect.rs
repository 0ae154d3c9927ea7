//! Known defects of the scripts, and one of the clocks. Tests switch each one on, to prove that the checks find it.
//! Defects of sessions and clients are patches in `../defects`.
//!
//! A defect of a script changes the text that the simulated server runs. The defect of the clocks changes the plan.

use steadlock_protocol::Script;

use crate::kinds::{Family, is_fair, role};
use crate::records::Record;

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// An attempt ignores the current holder.
    AcquireBesideHolder,
    /// An attempt sets half of the requested TTL.
    AcquireForHalf,
    /// An attempt sets no TTL.
    AcquireForEver,
    /// A second attempt of one owner does not find its own record.
    ResendIsRefused,
    /// A second attempt of one owner can shorten its record.
    ResendShortens,
    /// Tokens ignore the last one that was granted.
    TokenForgets,
    /// The key of the last token expires at once.
    TokenVanishes,
    /// Tokens are counted instead of following the clock.
    TokenCounts,
    /// A renewal creates the record again if it is gone.
    RenewalCreates,
    /// A renewal does not check whose record it is.
    RenewalOfAnyOwner,
    /// A renewal reports success and does nothing.
    RenewalForgets,
    /// A renewal can shorten a record.
    RenewalShortens,
    /// A release removes any record.
    ReleaseOfAnyOwner,
    /// A release reports success and does nothing.
    ReleaseForgets,
    /// The release of a mutex deletes a record of another owner.
    MutexReleaseOfAnyOwner,
    /// The renewal of a mutex acquires it even if another owner holds it.
    MutexRenewalCreates,
    /// The tokens of a mutex ignore the last one that was granted.
    MutexTokenForgets,
    /// A release of permits keeps the permits.
    PermitsNeverReturn,
    /// A semaphore grants one permit too many.
    PermitsBeyondLimit,
    /// A second attempt of one owner does not find its own permits.
    ResendTakesMorePermits,
    /// A writer ignores readers.
    WriterBesideReaders,
    /// A reader ignores a writer.
    ReaderBesideWriter,
    /// The release of a write lock keeps the writer.
    WriteReleaseForgets,
    /// A waiting writer does not keep new readers out.
    WaitingWriterIsIgnored,
    /// Readers that were refused during a write are not granted before the next writer.
    RefusedReadersComeLast,
    /// A dead waiter at the head of the fair queue is not skipped.
    DeadHeadIsNotSkipped,
    /// The fair lock is granted to the last waiter.
    LastWaiterIsGranted,
    /// A second attempt of one owner of the fair lock can shorten its record.
    FairResendShortens,
    /// A single attempt overtakes the waiters.
    SingleAttemptOvertakes,
    /// A full server does not tell a waiting writer who holds the lock.
    FullHidesFromWriter,
    /// A full server does not tell a waiting reader who writes.
    FullHidesFromReader,
    /// A full server does not tell a waiter of the fair lock who holds it.
    FullHidesFromFair,
    /// The fair lock is granted to dead waiters.
    DeadAreGranted,
    /// A waiter that gives up stays in the fair queue.
    PlaceStays,
    /// A waiter that gives up stays in the fair queue if the lock's key holds a record of another kind.
    PlaceStaysBesideMutex,
    /// A forced release of the fair lock does not grant it to the next waiter.
    ForceForgetsTheNext,
    /// A forced release reports success and does nothing.
    ForceForgets,
    /// A new limit revokes permits that are held.
    LimitTakesPermits,
    /// A request is granted by the limit that it names, even if another limit applies.
    LimitIsIgnored,
    /// Tokens of write locks are separate from those of other kinds with the same name.
    WriteHasTokensOfItsOwn,
    /// A mutex is acquired whatever its key holds.
    MutexTakesAnyKey,
    /// A second attempt of one owner can shorten the record of its mutex.
    MutexResendShortens,
    /// A second attempt of one owner can shorten its permits.
    PermitsResendShortens,
    /// A second attempt of one owner can shorten its read lock.
    ReadResendShortens,
    /// A second attempt of one owner can shorten its write lock.
    WriteResendShortens,
    /// The release of a lock publishes nothing.
    ReleaseWakesNobody,
    /// The release of a mutex publishes nothing.
    MutexReleaseWakesNobody,
    /// The release of permits publishes nothing.
    PermitsReleaseWakesNobody,
    /// The release of the last reader publishes nothing.
    LastReaderWakesNobody,
    /// The release of a writer publishes nothing.
    WriteReleaseWakesNobody,
    /// The release of a fair lock without waiters in its queue does not notify those that wait for it as a plain lock.
    FairReleaseWakesNobody,
    /// A forced release publishes nothing.
    ForceWakesNobody,
    /// A run of a job is granted beside another.
    RunBesideRun,
    /// A job that is done for a while is run again meanwhile.
    DoneJobRunsAgain,
    /// A key that is done is run again.
    DoneKeyRunsAgain,
    /// The time for which a job is done counts from the end of its run.
    DoneCountsFromTheEnd,
    /// The record of a key that is done has no TTL.
    DoneKeyForEver,
    /// The history of a job has no TTL.
    HistoryForEver,
    /// A late release of a run ends the next one.
    LateReleaseEndsNextRun,
    /// A renewal that comes after the end of its run makes the job done for longer.
    EndedRunIsRenewed,
    /// The tokens of runs ignore the last one that was granted.
    RunTokenForgets,
    /// A forced release of a run deletes the last token.
    RunForceLowersToken,
    /// A forced release of a job that is done reports success and does nothing.
    RunForceForgets,
    /// A request that another run keeps out is told of the run that ended last.
    SkipNamesTheLastRun,
    /// The history of a job keeps the time of the first success.
    HistoryForgetsTheEnd,
    /// The rates of clocks differ by more than the promises allow.
    ClocksTooFarApart,
}

impl Defect {
    /// Every defect.
    pub const ALL: &'static [Self] = &[
        Self::AcquireBesideHolder,
        Self::AcquireForHalf,
        Self::AcquireForEver,
        Self::ResendIsRefused,
        Self::ResendShortens,
        Self::TokenForgets,
        Self::TokenVanishes,
        Self::TokenCounts,
        Self::RenewalCreates,
        Self::RenewalOfAnyOwner,
        Self::RenewalForgets,
        Self::RenewalShortens,
        Self::ReleaseOfAnyOwner,
        Self::ReleaseForgets,
        Self::MutexReleaseOfAnyOwner,
        Self::MutexRenewalCreates,
        Self::MutexTokenForgets,
        Self::PermitsNeverReturn,
        Self::PermitsBeyondLimit,
        Self::ResendTakesMorePermits,
        Self::WriterBesideReaders,
        Self::ReaderBesideWriter,
        Self::WriteReleaseForgets,
        Self::WaitingWriterIsIgnored,
        Self::RefusedReadersComeLast,
        Self::DeadHeadIsNotSkipped,
        Self::LastWaiterIsGranted,
        Self::FairResendShortens,
        Self::SingleAttemptOvertakes,
        Self::FullHidesFromWriter,
        Self::FullHidesFromReader,
        Self::FullHidesFromFair,
        Self::DeadAreGranted,
        Self::PlaceStays,
        Self::PlaceStaysBesideMutex,
        Self::ForceForgetsTheNext,
        Self::ForceForgets,
        Self::LimitTakesPermits,
        Self::LimitIsIgnored,
        Self::WriteHasTokensOfItsOwn,
        Self::MutexTakesAnyKey,
        Self::MutexResendShortens,
        Self::PermitsResendShortens,
        Self::ReadResendShortens,
        Self::WriteResendShortens,
        Self::ReleaseWakesNobody,
        Self::MutexReleaseWakesNobody,
        Self::PermitsReleaseWakesNobody,
        Self::LastReaderWakesNobody,
        Self::WriteReleaseWakesNobody,
        Self::FairReleaseWakesNobody,
        Self::ForceWakesNobody,
        Self::RunBesideRun,
        Self::DoneJobRunsAgain,
        Self::DoneKeyRunsAgain,
        Self::DoneCountsFromTheEnd,
        Self::DoneKeyForEver,
        Self::HistoryForEver,
        Self::LateReleaseEndsNextRun,
        Self::EndedRunIsRenewed,
        Self::RunTokenForgets,
        Self::RunForceLowersToken,
        Self::RunForceForgets,
        Self::SkipNamesTheLastRun,
        Self::HistoryForgetsTheEnd,
        Self::ClocksTooFarApart,
    ];

    /// Returns the family of locks whose histories show the defect; `None` if every family shows it.
    pub(crate) fn family(self) -> Option<Family> {
        if matches!(
            self,
            Self::PlaceStaysBesideMutex | Self::WriteHasTokensOfItsOwn | Self::MutexTakesAnyKey
        ) {
            return Some(Family::OneName);
        }
        let script = self.change()?.0;
        Some(match role(script).1 {
            Record::Hash if is_fair(script) => Family::Fair,
            Record::Hash => Family::Lock,
            Record::Text => Family::Mutex,
            Record::Permits => Family::Semaphore,
            Record::Readers | Record::Writer => Family::ReadWrite,
            Record::Run => Family::Once,
        })
    }

    /// Returns the script with the defect, and its defective text; `None` if the defect is in no script.
    pub(crate) fn patch(self) -> Option<(Script, String)> {
        let (script, right, wrong) = self.change()?;
        let text = script.text();
        assert_eq!(text.matches(right).count(), 1, "{} has {right:?} once", script.file());
        Some((script, text.replace(right, wrong)))
    }

    /// Returns the script, its correct text, and the wrong one; `None` if the defect is in no script.
    const fn change(self) -> Option<(Script, &'static str, &'static str)> {
        Some(match self {
            Self::AcquireBesideHolder => (Script::LockAcquire, "if pttl ~= -2 then", "if false then"),
            Self::AcquireForHalf => (
                Script::LockAcquire,
                "redis.pcall('PEXPIRE', lock, lease)",
                "redis.pcall('PEXPIRE', lock, math.ceil(lease / 2))",
            ),
            Self::AcquireForEver => (Script::LockAcquire, "redis.pcall('PEXPIRE', lock, lease)", "1"),
            Self::ResendShortens => (Script::LockAcquire, "if pttl < tonumber(lease) then", "if true then"),
            Self::ResendIsRefused => (Script::LockAcquire, "mine = holder == owner", "mine = false"),
            Self::TokenForgets => (
                Script::LockAcquire,
                "local stored = redis.call('GET', token_key)",
                "local stored = mine and redis.call('GET', token_key)",
            ),
            Self::TokenVanishes => (Script::LockAcquire, "-6), '60000'", "-6), '1'"),
            Self::TokenCounts => (
                Script::LockAcquire,
                "local token, ttl = time[1] .. string.sub('00000' .. time[2], -6), '60000'",
                "local token, ttl = '1', '60000'",
            ),
            Self::RenewalCreates => (
                Script::LockRenew,
                "return {0}",
                "redis.call('HSET', lock, owner, '1')\nredis.call('PEXPIRE', lock, lease)\nreturn {1}",
            ),
            Self::RenewalOfAnyOwner => (
                Script::LockRenew,
                "redis.call('HEXISTS', lock, owner) == 1",
                "redis.call('EXISTS', lock) == 1",
            ),
            Self::RenewalForgets => (Script::LockRenew, "keep(lock, lease)", ""),
            Self::RenewalShortens => (
                Script::LockRenew,
                "if redis.call('PTTL', key) < tonumber(ttl) then",
                "if true then",
            ),
            Self::ReleaseOfAnyOwner => (
                Script::LockRelease,
                "redis.call('HDEL', lock, owner) == 0",
                "redis.call('DEL', lock) == 0",
            ),
            Self::ReleaseForgets => (
                Script::LockRelease,
                "redis.call('HDEL', lock, owner) == 0",
                "redis.call('HEXISTS', lock, owner) == 0",
            ),
            Self::MutexReleaseOfAnyOwner => (Script::MutexRelease, "if holder ~= owner then", "if false then"),
            Self::MutexRenewalCreates => (
                Script::MutexRenew,
                "if not holder then\n  return {0}\nend\nif holder ~= owner then\n  return {2}\nend\nkeep(lock, lease)",
                "redis.call('SET', lock, owner, 'PX', lease)",
            ),
            Self::MutexTokenForgets => (
                Script::MutexAcquire,
                "local stored = redis.call('GET', token_key)",
                "local stored = holder and redis.call('GET', token_key)",
            ),
            Self::PermitsNeverReturn => (
                Script::SemaphoreRelease,
                "redis.call('ZREM', permits, unpack(mine))",
                "redis.call('ZSCORE', permits, mine[1]) and 1 or 0",
            ),
            Self::PermitsBeyondLimit => (
                Script::SemaphoreAcquire,
                "if not mine and held + wanted > limit then",
                "if not mine and held + wanted > limit + 1 then",
            ),
            Self::ResendTakesMorePermits => (
                Script::SemaphoreAcquire,
                "local mine = held > 0 and tonumber(redis.call('ZSCORE', permits, owner .. '/1') or 0) > now",
                "local mine = false",
            ),
            Self::WriterBesideReaders => (Script::WriteAcquire, "if left(last[2], now) > 0 then", "if false then"),
            Self::ReaderBesideWriter => (
                Script::ReadAcquire,
                "if writing > 0 and s.writer ~= writer_around then",
                "if false then",
            ),
            Self::WriteReleaseForgets => (
                Script::WriteRelease,
                "redis.call('HDEL', state, 'writer', 'writer_until', 'refused')",
                "redis.call('HDEL', state, 'refused')",
            ),
            Self::WaitingWriterIsIgnored => (
                Script::ReadAcquire,
                "if writing <= 0 and marked > 0 and blocked > 0 and short_left(s.readers_until, now, READERS_FIRST) <= 0 then",
                "if false then",
            ),
            Self::RefusedReadersComeLast => (Script::WriteRelease, "if s[4] then", "if false then"),
            Self::DeadHeadIsNotSkipped => (
                Script::FairPoll,
                "    redis.call('HDEL', KEYS[4], owner)\n    if seen and",
                "    if not seen or now - tonumber(seen) > WAITER_LIFE then redis.call('ZADD', KEYS[3], 0, owner) return end\n    if seen and",
            ),
            Self::LastWaiterIsGranted => (
                Script::FairRelease,
                "redis.call('ZPOPMIN', KEYS[3])[1]",
                "redis.call('ZRANGE', KEYS[3], -1, -1)[1]\n    redis.call('ZREM', KEYS[3], owner or '')",
            ),
            Self::FairResendShortens => (Script::FairAcquire, "if pttl < tonumber(lease) then", "if true then"),
            Self::SingleAttemptOvertakes => (
                Script::FairAcquire,
                "if redis.call('EXISTS', lock, KEYS[3]) == 0 then",
                "if redis.call('EXISTS', lock) == 0 then",
            ),
            Self::FullHidesFromWriter => (
                Script::WriteAcquire,
                "redis.pcall('HSET', state, 'mark'",
                "redis.call('HSET', state, 'mark'",
            ),
            Self::FullHidesFromReader => (
                Script::ReadAcquire,
                "redis.pcall('HSET', state, 'refused'",
                "redis.call('HSET', state, 'refused'",
            ),
            Self::FullHidesFromFair => (
                Script::FairAcquire,
                "local has_queue = redis.call('PEXPIRE', KEYS[3], QUEUE_LIFE) == 1",
                "local has_queue = redis.call('EXISTS', KEYS[3]) == 1",
            ),
            Self::DeadAreGranted => (
                Script::FairPoll,
                "tonumber(seen) <= now and now - tonumber(seen) <= WAITER_LIFE",
                "tonumber(seen) <= now",
            ),
            Self::PlaceStays => (
                Script::FairRelease,
                "  redis.call('ZREM', KEYS[3], owner)\n  redis.call('HDEL', KEYS[4], owner)\n",
                "",
            ),
            Self::PlaceStaysBesideMutex => (
                Script::FairRelease,
                "local removed = redis.pcall('HDEL', lock, owner)",
                "local removed = redis.call('HDEL', lock, owner)",
            ),
            Self::ForceForgetsTheNext => (
                Script::FairForce,
                "granted, message = try_to_grant()",
                "granted, message = nil",
            ),
            Self::ForceForgets => (Script::LockForce, "redis.call('DEL', KEYS[1])\n", ""),
            Self::LimitTakesPermits => (
                Script::SemaphoreLimit,
                "redis.call('ZADD', permits, limit, 'limit')",
                "redis.call('ZREM', permits, redis.call('ZRANGE', permits, -1, -1)[1])\nredis.call('ZADD', permits, limit, 'limit')",
            ),
            Self::LimitIsIgnored => (
                Script::SemaphoreAcquire,
                "elseif agreed ~= limit then\n    return",
                "elseif false then\n    return",
            ),
            Self::WriteHasTokensOfItsOwn => (
                Script::WriteAcquire,
                "local stored = redis.call('GET', token_key)",
                "token_key = token_key .. ':write'\n  local stored = redis.call('GET', token_key)",
            ),
            Self::MutexTakesAnyKey => (
                Script::MutexAcquire,
                "local holder = redis.pcall('GET', lock)",
                "local holder = redis.call('TYPE', lock).ok == 'string' and redis.pcall('GET', lock)",
            ),
            Self::MutexResendShortens => (
                Script::MutexAcquire,
                "if redis.call('PTTL', key) < tonumber(ttl) then",
                "if true then",
            ),
            Self::PermitsResendShortens => (
                Script::SemaphoreAcquire,
                "redis.call('ZADD', permits, 'GT', unpack(granted))",
                "redis.call('ZADD', permits, unpack(granted))",
            ),
            Self::ReadResendShortens => (
                Script::ReadAcquire,
                "redis.call('ZADD', readers, 'GT', now + lease, owner)",
                "redis.call('ZADD', readers, now + lease, owner)",
            ),
            Self::WriteResendShortens => (
                Script::WriteAcquire,
                "now + math.max(tonumber(lease), mine and writing or 0)",
                "now + tonumber(lease)",
            ),
            Self::ReleaseWakesNobody => (
                Script::LockRelease,
                "return {1, publish_to_all(channel, '0')}",
                "return {1, 0}",
            ),
            Self::MutexReleaseWakesNobody => (
                Script::MutexRelease,
                "return {1, publish(channel, '0')}",
                "return {1, 0}",
            ),
            Self::PermitsReleaseWakesNobody => (
                Script::SemaphoreRelease,
                "local listeners = publish(channel, '0')",
                "local listeners = 0",
            ),
            Self::LastReaderWakesNobody => (
                Script::ReadRelease,
                "listeners = publish(channel, '0')",
                "listeners = 0",
            ),
            Self::WriteReleaseWakesNobody => (
                Script::WriteRelease,
                "local listeners = changed and publish(channel, '0')",
                "local listeners = 0",
            ),
            Self::FairReleaseWakesNobody => (
                Script::FairRelease,
                "listeners = publish_to_all(channel, '0')",
                "listeners = 0",
            ),
            Self::ForceWakesNobody => (
                Script::LockForce,
                "return {1, publish_to_all(ARGV[1], '0')}",
                "return {1, 0}",
            ),
            Self::RunBesideRun => (
                Script::OnceAcquire,
                "if run and not is_mine then",
                "if run and run.took then",
            ),
            Self::DoneJobRunsAgain => (
                Script::OnceAcquire,
                "if run and not is_mine then",
                "if run and not is_mine and not run.took then",
            ),
            Self::DoneKeyRunsAgain => (Script::OnceAcquire, "if KEYS[4] then", "if false then"),
            Self::DoneCountsFromTheEnd => (
                Script::OnceRelease,
                "math.min(run.since + at_least - now, at_least)",
                "at_least",
            ),
            Self::DoneKeyForEver => (
                Script::OnceRelease,
                "redis.call('PEXPIRE', key, ttl)",
                "if key ~= done then redis.call('PEXPIRE', key, ttl) end",
            ),
            Self::HistoryForEver => (Script::OnceAcquire, "redis.call('PEXPIRE', history, HISTORY_LIFE)", ""),
            Self::LateReleaseEndsNextRun => (
                Script::OnceRelease,
                "if not run or run.owner ~= owner then",
                "if not run then",
            ),
            Self::EndedRunIsRenewed => (Script::OnceRenew, "elseif run.took then", "elseif false then"),
            Self::RunTokenForgets => (
                Script::OnceAcquire,
                "local stored = redis.call('GET', KEYS[3])",
                "local stored = nil",
            ),
            Self::RunForceLowersToken => (
                Script::OnceForce,
                "redis.call('DEL', KEYS[1])",
                "redis.call('DEL', KEYS[1], (string.gsub(KEYS[1], ':once$', ':token')))",
            ),
            Self::RunForceForgets => (
                Script::OnceForce,
                "redis.call('DEL', KEYS[1])",
                "if not run.took then redis.call('DEL', KEYS[1]) end",
            ),
            Self::SkipNamesTheLastRun => (
                Script::OnceAcquire,
                "return held_by(run, record, now)",
                "run.owner = redis.call('HGET', history, 'ended_owner') or run.owner\n  return held_by(run, record, now)",
            ),
            Self::HistoryForgetsTheEnd => (
                Script::OnceRelease,
                "redis.pcall('HSET', history, 'succeeded', ended)",
                "redis.pcall('HSETNX', history, 'succeeded', ended)",
            ),
            Self::ClocksTooFarApart => return None,
        })
    }
}
