//! How many permits of a semaphore are wanted: numbers that exist only if they are valid.

use crate::error::{Error, ErrorKind, Operation};

/// How many permits of a semaphore are wanted, of how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permits {
    wanted: u32,
    limit: u32,
}

impl Permits {
    /// The largest limit.
    pub const MAX_LIMIT: u32 = 1_000_000;
    /// The most permits that one call takes.
    pub const MAX_WANTED: u32 = 1_000;

    /// `wanted` permits of `limit`.
    ///
    /// # Errors
    /// `InvalidArgument` unless 1 ≤ wanted ≤ 1,000 and wanted ≤ limit ≤ 1,000,000.
    pub fn new(wanted: u32, limit: u32) -> Result<Self, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidArgument, Operation::Acquire, message));
        if limit == 0 || limit > Self::MAX_LIMIT {
            return refuse(format!("a semaphore's limit is {limit}; give 1 to 1,000,000"));
        }
        if wanted == 0 || wanted > Self::MAX_WANTED || wanted > limit {
            return refuse(format!(
                "{wanted} permits of {limit} are wanted; give 1 to 1,000, and no more than the limit"
            ));
        }
        Ok(Self { wanted, limit })
    }

    /// How many are wanted.
    #[must_use]
    pub const fn wanted(self) -> u32 {
        self.wanted
    }

    /// How many there are.
    #[must_use]
    pub const fn limit(self) -> u32 {
        self.limit
    }
}
