//! The subject of an operation.

use crate::kinds::Kind;
use crate::name::LockName;

/// The subject of an operation: one lock, or several locks as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One lock.
    One(Kind, LockName),
    /// Several locks, all or none, in any order.
    All(Vec<(Kind, LockName)>),
}

impl Subject {
    /// Returns the name of the lock; `None` for several locks.
    #[must_use]
    pub const fn name(&self) -> Option<&LockName> {
        match self {
            Self::One(_, name) => Some(name),
            Self::All(_) => None,
        }
    }

    /// Whether a caller that holds this subject would wait for itself if it requested `wanted` and did not re-enter its
    /// hold, in a client with this many primaries. A hold of permits does not count, because there may be enough
    /// permits for both.
    #[must_use]
    pub fn keeps_out(&self, wanted: &Self, primaries: usize) -> bool {
        let keeps_out = |(held, held_name): &(Kind, &LockName)| {
            let mut same = wanted.locks().filter(|(_, name)| name == held_name);
            // On several primaries, all kinds of one name are the same lock.
            same.any(|(wanted, _)| primaries > 1 || held.keeps_out(wanted))
        };
        self.locks().any(|lock| keeps_out(&lock))
    }

    fn locks(&self) -> impl Iterator<Item = (Kind, &LockName)> {
        let (one, several) = match self {
            Self::One(kind, name) => (Some((*kind, name)), &[][..]),
            Self::All(locks) => (None, locks.as_slice()),
        };
        one.into_iter().chain(several.iter().map(|(kind, name)| (*kind, name)))
    }
}

impl From<(Kind, LockName)> for Subject {
    fn from((kind, name): (Kind, LockName)) -> Self {
        Self::One(kind, name)
    }
}

/// A list of one lock is the same subject as that lock.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Permits;

    fn one(kind: Kind, name: &str) -> (Kind, LockName) {
        (kind, LockName::parse(name).unwrap())
    }

    #[test]
    fn a_holder_is_kept_out_of_what_its_lock_excludes() {
        let permits = Kind::Semaphore(Permits::new(1, 2).unwrap());
        for (held, wanted, expected) in [
            (Kind::Lock, Kind::Fair, true),
            (Kind::Mutex, Kind::Mutex, true),
            (Kind::Read, Kind::Write, true),
            (Kind::Write, Kind::Read, true),
            (Kind::Read, Kind::Read, false),
            (Kind::Lock, Kind::Mutex, false),
            (permits, permits, false),
        ] {
            let [inner, other] = ["a", "b"].map(|name| Subject::from(one(wanted, name)));
            let alone = Subject::from(one(held, "a"));
            let several = Subject::All(vec![one(Kind::Mutex, "c"), one(held, "a")]);
            for outer in [alone, several] {
                assert_eq!(outer.keeps_out(&inner, 1), expected, "{held:?} and {wanted:?}");
                assert!(!outer.keeps_out(&other, 1) && !outer.keeps_out(&other, 3));
                assert!(outer.keeps_out(&inner, 3));
            }
        }
    }
}
