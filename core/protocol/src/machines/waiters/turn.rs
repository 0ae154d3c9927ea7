//! The turns of the clients that contend for one lock.
//!
//! After a release the next local waiter asks at once. To let other processes have their turn, a client that knows of
//! subscribers elsewhere pauses after 16 local grants in a row, or 20 ms after the first of them.

use std::time::Duration;

use crate::instant::Instant;

/// The length of the present turn of this client.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// The number of grants here since another client could last acquire the lock.
    grants: u32,
    /// When the first of these grants was made.
    since: Option<Instant>,
    /// When the lock was last released here, if it was not granted here since.
    free_since: Option<Instant>,
    /// How many other connections received the message about the last release.
    others: u32,
}

impl Turn {
    const MAX_GRANTS: u32 = 16;
    const MAX_TIME: Duration = Duration::from_millis(20);
    /// A lock that was free for this long could be acquired by every client, so a new turn begins.
    const FREE_TIME: Duration = Duration::from_millis(5);

    /// Notes that the lock was granted here.
    pub(super) fn granted(&mut self, now: Instant) {
        self.grants = self.grants.saturating_add(1);
        self.since.get_or_insert(now);
        self.free_since = None;
    }

    /// Notes that the lock was released here.
    pub(super) fn released(&mut self, now: Instant) {
        self.free_since = Some(now);
    }

    /// Ends the turn, because another client had the lock or could acquire it.
    pub(super) fn passed_on(&mut self) {
        self.grants = 0;
        self.since = None;
        self.free_since = None;
    }

    /// Notes how many other connections received the message about a release.
    pub(super) const fn heard_by(&mut self, others: u32) {
        self.others = others;
    }

    /// Whether clients elsewhere wait for the lock.
    pub(super) fn is_shared(&self) -> bool {
        self.others > 0
    }

    /// Whether other clients should come before the next local attempt.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        if self.others == 0 {
            return false;
        }
        if self
            .free_since
            .is_some_and(|since| now.saturating_since(since) >= Self::FREE_TIME)
        {
            self.passed_on();
        }
        self.grants >= Self::MAX_GRANTS
            || self
                .since
                .is_some_and(|since| now.saturating_since(since) >= Self::MAX_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_client_alone_never_pauses() {
        let mut turn = Turn::default();
        for grant in 0..1_000 {
            turn.granted(at(grant));
            assert!(!turn.is_over(at(grant)));
        }
    }

    #[test]
    fn a_turn_ends_after_sixteen_grants_when_others_listen() {
        let mut turn = Turn::default();
        turn.heard_by(1);
        for _ in 0..15 {
            turn.granted(at(0));
            assert!(!turn.is_over(at(0)));
        }
        turn.granted(at(0));
        assert!(turn.is_over(at(0)));
        turn.passed_on();
        assert!(!turn.is_over(at(0)));
    }

    #[test]
    fn a_turn_ends_after_twenty_milliseconds() {
        let mut turn = Turn::default();
        turn.heard_by(1);
        turn.granted(at(0));
        assert!(!turn.is_over(at(19)));
        assert!(turn.is_over(at(20)));
    }

    #[test]
    fn a_lock_that_lay_free_starts_a_new_turn() {
        let mut turn = Turn::default();
        turn.heard_by(1);
        turn.granted(at(0));
        turn.released(at(100));
        assert!(turn.is_over(at(104)));
        assert!(!turn.is_over(at(105)));
    }
}
