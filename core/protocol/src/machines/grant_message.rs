//! Grant messages: the server reports a grant to a waiter, in a notification or in the reply to a release. A message
//! has the form `<owner> <last seen> <token>`.
//!
//! Every user that may publish can forge a grant message or repeat an old one. The client therefore compares each
//! message with its estimate of the server's clock, and trusts the message only if three things are true:
//!
//! - The server last saw the owner no earlier than in the last call that found the owner in the queue.
//! - The message has a token exactly if the owner wants one. Tokens follow the server's clock, and this one is no lower
//!   than the last-seen time.
//! - Neither the token nor the last-seen time is more than a small margin ahead of the estimate.
//!
//! If any other message names one of its waiters, the client asks the server.

use std::time::Duration;

use crate::instant::Instant;
use crate::kinds::parse_number;
use crate::step::ClockReading;
use crate::token::Token;

/// How far the server's clock may be ahead of the client's estimate, in addition to 1 % of the time since the client
/// last read it.
const MARGIN: Duration = Duration::from_millis(20);

/// A parsed grant message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GrantMessage<'a> {
    /// The owner id that the lock is granted to.
    pub(super) owner: &'a [u8],
    /// When the server last received a call that named the owner, in µs of the server's clock.
    seen: u64,
    /// The fencing token of the grant, if the owner wants one.
    pub(super) token: Option<Token>,
}

impl<'a> GrantMessage<'a> {
    /// Parses a payload; returns `None` if it is not a grant message.
    pub(super) fn parse(payload: &'a [u8]) -> Option<Self> {
        let mut words = payload.split(|byte| *byte == b' ');
        let (owner, seen, token) = (words.next()?, words.next()?, words.next()?);
        let has_three_words = words.next().is_none() && !owner.is_empty();
        let message = Self {
            owner,
            seen: parse_number(seen)?,
            token: Token::parse(token),
        };
        let has_valid_token = message.token.is_some() || token.is_empty();
        (has_three_words && has_valid_token).then_some(message)
    }

    /// Whether the message can be true for a waiter that a call found in the queue at `found`.
    ///
    /// A server whose clock was set back draws tokens that are ahead of its clock. The client does not trust messages
    /// with such tokens until the clock has passed them; each such grant costs one more call.
    pub(super) fn is_plausible(&self, found: ClockReading, wants_token: bool, now: Instant) -> bool {
        let latest = latest(found, now);
        let is_token = |token: Token| (self.seen..=latest).contains(&token.get());
        let is_granted = if wants_token {
            self.token.is_some_and(is_token)
        } else {
            self.token.is_none()
        };
        found.clock <= self.seen && self.seen <= latest && is_granted
    }
}

/// Returns the latest time that the server's clock can show `now`, in µs.
fn latest(found: ClockReading, now: Instant) -> u64 {
    let since = now.saturating_since(found.sent);
    let drift = since.checked_div(100).unwrap_or_default();
    let ahead = since.saturating_add(drift).saturating_add(MARGIN);
    found
        .clock
        .saturating_add(u64::try_from(ahead.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_three_words() {
        let message = GrantMessage::parse(b"a:1 17 18").unwrap();
        assert_eq!((message.owner, message.seen), (&b"a:1"[..], 17));
        assert_eq!(message.token.map(Token::get), Some(18));
        assert_eq!(GrantMessage::parse(b"a:1 17 ").unwrap().token, None);
        for wrong in [
            "",
            " ",
            "  ",
            "0",
            "a:1",
            "a:1 17",
            " 17 18",
            "a:1  18",
            "a:1 x 18",
            "a:1 -1 18",
            "a:1 17 18 19",
            "a:1 17 x",
            "a:1 17 9007199254740992",
            "a:1 18446744073709551616 18",
        ] {
            assert_eq!(GrantMessage::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_plausible_message_is_from_the_time_since_the_waiter_was_found() {
        const FOUND: u64 = 1_795_000_000_000_000;
        let sent = Instant::ZERO + Duration::from_secs(50);
        // Half a second later: 500 ms, 5 ms of drift and the margin of 20 ms.
        let (now, latest) = (sent + Duration::from_millis(500), FOUND + 525_000);
        let found = ClockReading { sent, clock: FOUND };
        let is_plausible = |seen: u64, token: &str, wants_token| {
            let text = format!("a:1 {seen} {token}");
            GrantMessage::parse(text.as_bytes())
                .unwrap()
                .is_plausible(found, wants_token, now)
        };
        for (seen, token) in [(FOUND, FOUND), (FOUND, latest), (latest, latest)] {
            assert!(is_plausible(seen, &token.to_string(), true), "{seen} {token}");
        }
        for (seen, token) in [
            (FOUND - 1, FOUND),
            (FOUND, FOUND - 1),
            (FOUND, latest + 1),
            (latest + 1, latest + 1),
            (latest, FOUND),
            (FOUND, (1 << 53) - 2),
            (0, 1),
        ] {
            assert!(!is_plausible(seen, &token.to_string(), true), "{seen} {token}");
        }
        assert!(is_plausible(FOUND, "", false));
        assert!(!is_plausible(FOUND, "", true), "a token is wanted");
        assert!(!is_plausible(FOUND, &FOUND.to_string(), false), "no token is wanted");
    }
}
