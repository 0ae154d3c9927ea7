//! Commands that inspect locks, and commands for operators.

mod format;
mod hold_times;
pub(crate) mod inspect;
pub(crate) mod jobs;
pub(crate) mod leader;
pub(crate) mod list;
pub(crate) mod release;
mod screen;
pub(crate) mod top;
pub(crate) mod wait;

use clap::ValueEnum;

/// A kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    #[value(name = "lock")]
    Lock,
    #[value(name = "mutex")]
    Mutex,
    #[value(name = "fair_lock")]
    Fair,
    #[value(name = "read_lock")]
    Read,
    #[value(name = "write_lock")]
    Write,
    #[value(name = "semaphore")]
    Semaphore,
    #[value(name = "once")]
    Once,
    #[value(name = "leader")]
    Leader,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Mutex => "mutex",
            Self::Fair => "fair_lock",
            Self::Read => "read_lock",
            Self::Write => "write_lock",
            Self::Semaphore => "semaphore",
            Self::Once => "once",
            Self::Leader => "leader",
        }
    }

    /// Returns what an owner of this kind has, in a sentence.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Once => "run",
            Self::Leader => "term",
            other => other.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_are_those_of_the_core() {
        let names: Vec<&str> = Kind::value_variants().iter().map(|kind| kind.name()).collect();
        assert_eq!(names, steadlock::host::Kind::NAMES);
        for kind in Kind::value_variants() {
            let value = kind.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), kind.name());
        }
    }
}
