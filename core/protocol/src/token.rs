//! Fencing tokens.

use std::fmt;
use std::num::NonZeroU64;

/// A number that a server draws for a grant: higher than all that it drew before for the same name.
///
/// A resource that stores the highest token it has received can refuse a holder that was paused for too long. A token
/// is below 2^53, so that Lua and JavaScript numbers can represent it. The field is one more than the number, so that
/// an `Option<Token>` needs no extra memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(NonZeroU64);

impl Token {
    /// The smallest number that is too large.
    const LIMIT: u64 = 1 << 53;

    /// Parses the decimal text of the wire; `None` if it is not a token.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = text.parse().ok().filter(|number| *number < Self::LIMIT)?;
        Some(Self(NonZeroU64::MIN.saturating_add(number)))
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get().saturating_sub(1)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
