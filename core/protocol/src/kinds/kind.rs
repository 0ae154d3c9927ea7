//! The table of kinds: each is a row that names the table in the kind's own file.

use super::permits::Permits;
use super::spec::{Again, Gate, Holders, Spec, Waiters};
use super::{fair, lock, mutex, read_write, semaphore};
use crate::error::{Error, ErrorKind, Operation};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $(($numbers:ident))? => $spec:path;)*) => {
        /// A kind of lock.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind $(($numbers))?,)*
        }

        impl Kind {
            /// The names of all kinds, as every language's table of kinds has them.
            pub const NAMES: [&'static str; [$($spec.name),*].len()] = [$($spec.name),*];

            /// What the kind is. Nothing else tells kinds apart.
            pub(crate) const fn spec(self) -> &'static Spec {
                match self {
                    $(Self::$kind { .. } => &$spec,)*
                }
            }

            /// The kind of this name; `wanted` and `limit` are a semaphore's.
            ///
            /// # Errors
            /// `InvalidArgument` for another name, and as [`Permits::new`].
            pub fn parse(name: &str, wanted: u32, limit: u32) -> Result<Self, Error> {
                $(
                    if name == $spec.name {
                        return Ok(Self::$kind $(($numbers::new(wanted, limit)?))?);
                    }
                )*
                Err(Error::new(
                    ErrorKind::InvalidArgument,
                    Operation::Acquire,
                    format!("there is no lock of the kind {name:?}; give one of {:?}", Self::NAMES),
                ))
            }
        }
    };
}

kinds! {
    /// The reentrant lock. Excludes Redisson's `getLock` of the same name.
    Lock => lock::SPEC;
    /// The simple lock, in the layout of most other libraries. Not reentrant.
    Mutex => mutex::SPEC;
    /// The reentrant lock whose waiters are served in order of arrival, whatever
    /// their process. Excludes `Lock`.
    Fair => fair::SPEC;
    /// The side of a read-write lock that many may hold.
    Read => read_write::READ;
    /// The side of a read-write lock that one holds alone.
    Write => read_write::WRITE;
    /// Permits of a semaphore. Not reentrant.
    Semaphore(Permits) => semaphore::SPEC;
}

impl Kind {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Whether it is held once at a time.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        matches!(self.spec().holders, Holders::One)
    }

    /// Whether its holder is let in again.
    #[must_use]
    pub const fn is_reentrant(self) -> bool {
        matches!(self.spec().again, Again::Enters)
    }

    /// Why a caller is refused that names the lease of such a lock to acquire it again, if it is not reentrant.
    pub(crate) const fn refusal_within(self) -> &'static str {
        if self.is_exclusive() {
            "the lease given as `within` holds this lock, which is not reentrant; release it first"
        } else {
            "this kind of lock is not reentrant; leave `within` out"
        }
    }

    /// Why a wait without a bound of its own holder is refused: nobody else could end it. `None` if the holder is let in
    /// again, or several hold it.
    pub(crate) const fn refusal_of_endless(self) -> Option<&'static str> {
        match self.spec().again {
            Again::Waits(why) if self.is_exclusive() => Some(why),
            Again::Waits(_) | Again::Enters => None,
        }
    }

    /// Whether a hold of this keeps out whatever wants the other, of the same name. Of permits some may be left.
    pub(crate) fn keeps_out(self, other: Self) -> bool {
        self.permits().is_none() && other.spec().excludes.contains(&self.gate())
    }

    /// Whether its waiters queue on the server.
    pub(crate) const fn queues_on_server(self) -> bool {
        matches!(self.spec().waiters, Waiters::Server { .. })
    }

    /// Whether a waiter that was refused left its mark on the server, which it
    /// removes when it gives up.
    pub(crate) const fn leaves_mark(self) -> bool {
        self.spec().leaves_mark
    }

    /// What its local waiters queue at.
    pub(crate) const fn gate(self) -> Gate {
        self.spec().gate
    }

    /// The permits that are wanted, of a kind that counts them.
    pub(crate) const fn permits(self) -> Option<Permits> {
        // A value of this variant, and not a rule of the kind: those are in its table.
        let Self::Semaphore(permits) = self else { return None };
        Some(permits)
    }

    /// One of each, of two permits of three.
    #[cfg(test)]
    pub(super) fn each() -> Vec<Self> {
        let of = |name: &&str| Self::parse(name, 2, 3).unwrap();
        Self::NAMES.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_name() {
        for (kind, name) in Kind::each().into_iter().zip(Kind::NAMES) {
            assert_eq!(kind.name(), name);
        }
        let unknown = Kind::parse("spin", 1, 1).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::InvalidArgument, "{unknown}");
    }

    #[test]
    fn kinds_keep_one_another_out() {
        let keeps_out = |one: Kind, other: Kind| one.spec().excludes.contains(&other.gate());
        for one in Kind::each() {
            for other in Kind::each() {
                assert_eq!(keeps_out(one, other), keeps_out(other, one), "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn only_what_several_hold_lets_in_its_own_gate() {
        for kind in Kind::each() {
            let spec = kind.spec();
            let shares = spec.holders == Holders::Many;
            assert_eq!(spec.excludes.contains(&spec.gate), !shares, "{kind:?}");
            assert_eq!(kind.permits().is_some(), spec.holders == Holders::Permits, "{kind:?}");
        }
    }
}
