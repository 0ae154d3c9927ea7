//! Known defects that can be switched on, to prove that the checks find them.
//!
//! A defect of a script is a change of the text that the simulated server runs.
//! A defect of the session will be a run-time switch in `leasehold-protocol`; it
//! joins the same list, with no patch.

use leasehold_protocol::Script;

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
    /// A second attempt of one owner gets another token.
    ResendDrawsToken,
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
}

impl Defect {
    /// Every defect.
    pub const ALL: &'static [Self] = &[
        Self::AcquireBesideHolder,
        Self::AcquireForHalf,
        Self::AcquireForEver,
        Self::ResendIsRefused,
        Self::ResendDrawsToken,
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
    ];

    /// The script that it is in, and its defective text.
    pub(crate) fn patch(self) -> (Script, String) {
        let (script, right, wrong) = self.change();
        let text = script.text();
        assert_eq!(text.matches(right).count(), 1, "{} has {right:?} once", script.file());
        (script, text.replace(right, wrong))
    }

    /// The script, what it says, and what it says wrongly.
    const fn change(self) -> (Script, &'static str, &'static str) {
        match self {
            Self::AcquireBesideHolder => (Script::LockAcquire, "if pttl ~= -2 then", "if false then"),
            Self::AcquireForHalf => (
                Script::LockAcquire,
                "redis.pcall('PEXPIRE', lock, lease)",
                "redis.pcall('PEXPIRE', lock, math.ceil(lease / 2))",
            ),
            Self::AcquireForEver => (Script::LockAcquire, "redis.pcall('PEXPIRE', lock, lease)", "1"),
            Self::ResendShortens => (
                Script::LockAcquire,
                "if not mine or pttl < tonumber(lease) then",
                "if true then",
            ),
            Self::ResendIsRefused => (
                Script::LockAcquire,
                "mine = redis.call('HEXISTS', lock, owner) == 1",
                "mine = false",
            ),
            Self::ResendDrawsToken => (Script::LockAcquire, "if mine and stored then", "if false then"),
            Self::TokenForgets => (
                Script::LockAcquire,
                "local stored = redis.call('GET', token_key)",
                "local stored = mine and redis.call('GET', token_key)",
            ),
            Self::TokenVanishes => (Script::LockAcquire, "-6), '60000'", "-6), '1'"),
            Self::TokenCounts => (
                Script::LockAcquire,
                "token, token_ttl = time[1] .. string.sub('00000' .. time[2], -6), '60000'",
                "token, token_ttl = '1', '60000'",
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
            Self::RenewalForgets => (Script::LockRenew, "redis.call('PEXPIRE', lock, lease)", ""),
            Self::RenewalShortens => (
                Script::LockRenew,
                "if redis.call('PTTL', lock) < tonumber(lease) then",
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
        }
    }
}
