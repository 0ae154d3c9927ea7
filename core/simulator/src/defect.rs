//! Known defects of the servers and of what is around them, to prove that the checks find
//! them. Mistakes of the session are switches of `steadlock-protocol`.
//!
//! A defect of a script is a change of the text that the simulated server runs.
//! One of the surroundings is drawn with the plan.

use steadlock_protocol::Script;

use crate::kinds::{Family, is_fair, role};
use crate::records::Record;

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Attempts do not look whether another has the lock.
    AcquireBesideHolder,
    /// Attempts set half the TTL that was asked for.
    AcquireForHalf,
    /// Attempts set no TTL.
    AcquireForEver,
    /// A second attempt of one owner does not find its own record.
    ResendIsRefused,
    /// A second attempt of one owner can make its record shorter.
    ResendShortens,
    /// Tokens forget the last one that was given.
    TokenForgets,
    /// The last token vanishes at once.
    TokenVanishes,
    /// Tokens are counted, not anchored in time.
    TokenCounts,
    /// Renewing creates the record again when it is gone.
    RenewalCreates,
    /// Renewing does not look whose record it is.
    RenewalOfAnyOwner,
    /// Renewing says that it worked, and does nothing.
    RenewalForgets,
    /// Renewing can make a record shorter.
    RenewalShortens,
    /// Releasing takes away whatever record there is.
    ReleaseOfAnyOwner,
    /// Releasing says that it worked, and does nothing.
    ReleaseForgets,
    /// Releasing a mutex deletes a stranger's.
    MutexReleaseOfAnyOwner,
    /// Renewing a mutex acquires it, no matter who holds it.
    MutexRenewalCreates,
    /// A mutex' tokens forget the last one that was given.
    MutexTokenForgets,
    /// A semaphore's permits are not released.
    PermitsNeverReturn,
    /// A semaphore gives one permit too many.
    PermitsBeyondLimit,
    /// A second attempt of one owner does not find its own permits.
    ResendTakesMorePermits,
    /// A writer does not look for readers.
    WriterBesideReaders,
    /// A reader does not look for a writer.
    ReaderBesideWriter,
    /// Releasing a write keeps the writer.
    WriteReleaseForgets,
    /// A waiting writer does not keep new readers out.
    WriterWaitsInVain,
    /// Readers that were refused during a write do not go before the next writer.
    ReaderWaitsInVain,
    /// A dead waiter at the head of the fair queue is not passed over.
    DeadHeadBlocks,
    /// The fair lock goes to the last waiter.
    LineJumps,
    /// A second attempt of one owner of the fair lock can make its record shorter.
    FairResendShortens,
    /// A single attempt overtakes the waiters.
    TryOvertakes,
    /// A full server does not tell a waiting writer who holds the lock.
    FullHidesFromWriter,
    /// A full server does not tell a waiting reader who writes.
    FullHidesFromReader,
    /// A full server does not tell a waiter of the fair lock who holds it.
    FullHidesFromFair,
    /// The fair lock goes to waiters that have died.
    DeadAreGranted,
    /// Who gives up its place stays in the fair queue.
    PlaceStays,
    /// Who gives up its place in the fair queue stays in it if the lock's key is another kind's.
    PlaceStaysBesideMutex,
    /// Force takes the fair lock, and the next in the queue goes away empty.
    ForceForgetsTheNext,
    /// A forced release says that it worked, and does nothing.
    ForceForgets,
    /// A new limit takes the permits back that are held.
    LimitTakesPermits,
    /// Permits are given by any limit that is named.
    LimitIsIgnored,
    /// A write has tokens of its own, beside those of the other kinds of its name.
    WriteHasTokensOfItsOwn,
    /// A mutex is taken whatever its key has.
    MutexTakesAnyKey,
    /// A second attempt of one owner can make its mutex' record shorter.
    MutexResendShortens,
    /// A second attempt of one owner can make its permits end sooner.
    PermitsResendShortens,
    /// A second attempt of one owner can make its read end sooner.
    ReadResendShortens,
    /// A second attempt of one owner can make its write end sooner.
    WriteResendShortens,
    /// Releasing a lock tells nobody.
    ReleaseWakesNobody,
    /// Releasing a mutex tells nobody.
    MutexReleaseWakesNobody,
    /// Releasing permits tells nobody.
    PermitsReleaseWakesNobody,
    /// The last reader that leaves tells nobody.
    LastReaderWakesNobody,
    /// A writer that leaves tells nobody.
    WriteReleaseWakesNobody,
    /// Releasing a fair lock that nobody queues for does not tell those who want it as a plain lock.
    FairReleaseWakesNobody,
    /// A forced release tells nobody.
    ForceWakesNobody,
    /// Clocks run at rates that are further apart than what is promised bears.
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
        Self::WriterWaitsInVain,
        Self::ReaderWaitsInVain,
        Self::DeadHeadBlocks,
        Self::LineJumps,
        Self::FairResendShortens,
        Self::TryOvertakes,
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
        Self::ClocksTooFarApart,
    ];

    /// The locks that it is found with, if that matters.
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
        })
    }

    /// The script that it is in, and its defective text; `None` if it is in none.
    pub(crate) fn patch(self) -> Option<(Script, String)> {
        let (script, right, wrong) = self.change()?;
        let text = script.text();
        assert_eq!(text.matches(right).count(), 1, "{} has {right:?} once", script.file());
        Some((script, text.replace(right, wrong)))
    }

    /// The script, what it says, and what it says wrongly; `None` if it is in no script.
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
            Self::WriterWaitsInVain => (
                Script::ReadAcquire,
                "if writing <= 0 and marked > 0 and blocked > 0 and short_left(s.readers_until, now, READERS_FIRST) <= 0 then",
                "if false then",
            ),
            Self::ReaderWaitsInVain => (Script::WriteRelease, "if s[4] then", "if false then"),
            Self::DeadHeadBlocks => (
                Script::FairPoll,
                "    redis.call('HDEL', KEYS[4], owner)\n    if seen and",
                "    if not seen or now - tonumber(seen) > WAITER_LIFE then redis.call('ZADD', KEYS[3], 0, owner) return end\n    if seen and",
            ),
            Self::LineJumps => (
                Script::FairRelease,
                "redis.call('ZPOPMIN', KEYS[3])[1]",
                "redis.call('ZRANGE', KEYS[3], -1, -1)[1]\n    redis.call('ZREM', KEYS[3], owner or '')",
            ),
            Self::FairResendShortens => (Script::FairAcquire, "if pttl < tonumber(lease) then", "if true then"),
            Self::TryOvertakes => (
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
                "granted, news = try_to_grant()",
                "granted, news = nil",
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
            Self::ClocksTooFarApart => return None,
        })
    }
}
