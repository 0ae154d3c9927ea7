//! How often messages make a client ask.
//!
//! A message says that a lock may be free, and the client asks the server whether it is. Anybody
//! who may publish can say so at any time, and any number of times. So a queue counts the
//! questions that messages have caused and that found the lock with the same holder: a few of
//! them are free, then each makes the next one wait for twice as long. Any change ends that.
//!
//! ```text
//!           asked, and the holder is the same: the gap doubles
//!              ┌──┐
//!  every 2 ms ─┴──┴─► up to the poll
//!      ▲               │
//!      └───────────────┘ another holder, a renewal, a grant or a release here
//! ```

use std::time::Duration;

use crate::instant::Instant;
use crate::periods::MIN_GAP;

/// So many questions in vain do not count: waiters are also notified of releases that others
/// were faster to use.
const FREE: u32 = 4;
/// A gap is doubled no more often; the longest one comes before that.
const MOST_DOUBLINGS: u32 = 16;

/// The questions of one queue that messages have caused.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wakes {
    /// How many found the same holder, since something changed.
    fruitless: u32,
    /// When the last was asked.
    last: Option<Instant>,
    /// How many are not answered.
    open: u32,
}

impl Wakes {
    /// When the next message may cause one. No gap is longer than `longest`.
    pub(super) fn earliest(&self, longest: Duration) -> Option<Instant> {
        let doublings = self.fruitless.saturating_sub(FREE).min(MOST_DOUBLINGS);
        let gap = MIN_GAP.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX));
        self.last.map(|last| last + gap.min(longest))
    }

    /// A message causes one.
    pub(super) fn asks(&mut self, now: Instant) {
        self.last = Some(now);
        self.open = self.open.saturating_add(1);
    }

    /// An answer came, to one of them or to another question; whether it says what the one
    /// before it did.
    pub(super) fn answered(&mut self, is_the_same: bool) {
        if !is_the_same {
            self.changed();
        } else if self.open > 0 {
            self.open = self.open.saturating_sub(1);
            self.fruitless = self.fruitless.saturating_add(1);
        }
    }

    /// Whether messages have caused none.
    pub(super) fn is_fresh(&self) -> bool {
        *self == Self::default()
    }

    /// The lock was granted or released.
    pub(super) fn changed(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_millis(500);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// How long after one question in vain the next may be asked.
    fn gaps(wakes: &mut Wakes, count: usize) -> Vec<u128> {
        let gap = |_| {
            wakes.asks(at(0));
            wakes.answered(true);
            let next = wakes.earliest(LONGEST).unwrap();
            next.saturating_since(at(0)).as_millis()
        };
        (0..count).map(gap).collect()
    }

    #[test]
    fn questions_in_vain_come_ever_more_slowly() {
        let mut wakes = Wakes::default();
        assert_eq!(wakes.earliest(LONGEST), None);
        let expected = [2, 2, 2, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500];
        assert_eq!(gaps(&mut wakes, 13), expected);
        assert_eq!(gaps(&mut wakes, 100_000).last(), Some(&500));
    }

    #[test]
    fn a_change_ends_that() {
        for change in [Wakes::changed, |wakes: &mut Wakes| wakes.answered(false)] {
            let mut wakes = Wakes::default();
            gaps(&mut wakes, 100);
            change(&mut wakes);
            assert_eq!(gaps(&mut wakes, 5), [2, 2, 2, 2, 4]);
        }
    }

    #[test]
    fn questions_that_no_message_caused_do_not_count() {
        let mut wakes = Wakes::default();
        (0..100).for_each(|_| wakes.answered(true));
        assert_eq!(gaps(&mut wakes, 5), [2, 2, 2, 2, 4]);
    }
}
