//! The limit on how often messages make a client ask the server.
//!
//! A message says that a lock may be free, and the client asks the server whether it is. Every user that may publish
//! can send any number of such messages. A queue therefore counts the calls that messages have caused and that found
//! the same holder as before. After the first few, each such call doubles the gap before the next one. Any change of
//! the lock resets the gap.
//!
//! ```text
//!           asked, and the holder is the same: the gap doubles
//!              ┌──┐
//!  every 2 ms ─┴──┴─► up to the poll interval
//!      ▲               │
//!      └───────────────┘ another holder, a renewal, a grant or a release here
//! ```

use std::time::Duration;

use crate::instant::Instant;
use crate::periods::MIN_GAP;

/// The number of calls without success that do not lengthen the gap. A few are normal, because another client may be
/// faster after a release.
const FREE: u32 = 4;
/// The maximum number of doublings. The gap reaches its longest value earlier.
const MOST_DOUBLINGS: u32 = 16;

/// The calls for one queue that messages have caused.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wakes {
    /// The number of calls since the last change; each of them found the same holder.
    fruitless: u32,
    /// When a message last caused a call.
    last: Option<Instant>,
    /// The number of calls that are not answered yet.
    open: u32,
}

impl Wakes {
    /// Returns when a message may cause the next call; `None` for at once. No gap is longer than `longest`.
    pub(super) fn earliest(&self, longest: Duration) -> Option<Instant> {
        let doublings = self.fruitless.saturating_sub(FREE).min(MOST_DOUBLINGS);
        let gap = MIN_GAP.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX));
        self.last.map(|last| last + gap.min(longest))
    }

    /// Notes that a message causes a call.
    pub(super) fn asks(&mut self, now: Instant) {
        self.last = Some(now);
        self.open = self.open.saturating_add(1);
    }

    /// Notes an answer to such a call, or to another one. `is_the_same` says whether the answer repeats the last one.
    pub(super) fn answered(&mut self, is_the_same: bool) {
        if !is_the_same {
            self.changed();
        } else if self.open > 0 {
            self.open = self.open.saturating_sub(1);
            self.fruitless = self.fruitless.saturating_add(1);
        }
    }

    /// Whether messages have caused no call since the last change.
    pub(super) fn is_fresh(&self) -> bool {
        *self == Self::default()
    }

    /// Resets the gap, because the lock has changed.
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

    /// Returns the gap after each of `count` calls without success, in milliseconds.
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
