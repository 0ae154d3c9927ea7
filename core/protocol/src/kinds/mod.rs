//! The kinds of lock. A kind is its keys, its scripts and its wake rule; the
//! machine that uses them is one for all.
mod lock;

/// A kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The reentrant lock.
    Lock,
}
