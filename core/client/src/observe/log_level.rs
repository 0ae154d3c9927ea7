//! The level of a host's log, which the host can change at any time and from any thread.

use std::sync::atomic::{AtomicU8, Ordering};

use super::observation::Level;

/// The current level of the host's log.
#[derive(Debug)]
pub(crate) struct LogLevel(AtomicU8);

impl LogLevel {
    pub(crate) const fn new(level: Option<Level>) -> Self {
        Self(AtomicU8::new(number(level)))
    }

    pub(crate) fn set(&self, level: Option<Level>) {
        self.0.store(number(level), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Level> {
        let stored = self.0.load(Ordering::Relaxed);
        Level::ALL.into_iter().find(|level| number(Some(*level)) == stored)
    }
}

const fn number(level: Option<Level>) -> u8 {
    match level {
        None => 0,
        Some(Level::Debug) => 1,
        Some(Level::Info) => 2,
        Some(Level::Warn) => 3,
        Some(Level::Error) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_read_as_it_was_set() {
        let log_level = LogLevel::new(None);
        assert_eq!(log_level.get(), None);
        for level in Level::ALL.map(Some).into_iter().chain([None]) {
            log_level.set(level);
            assert_eq!(log_level.get(), level);
        }
    }
}
