//! What an operation is about.

use crate::kinds::Kind;
use crate::name::LockName;

/// What an operation is about: one lock, or several as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One lock.
    One(Kind, LockName),
    /// Several, all or none, in any order.
    All(Vec<(Kind, LockName)>),
}

impl From<(Kind, LockName)> for Subject {
    fn from((kind, name): (Kind, LockName)) -> Self {
        Self::One(kind, name)
    }
}

/// One lock is no several.
impl From<Vec<(Kind, LockName)>> for Subject {
    fn from(mut locks: Vec<(Kind, LockName)>) -> Self {
        match locks.pop() {
            Some((kind, name)) if locks.is_empty() => Self::One(kind, name),
            last => {
                locks.extend(last);
                Self::All(locks)
            }
        }
    }
}
