//! Periods in which an error is excused, and the locks to which the excuse applies.

use std::time::Duration;

use tokio::time::Instant;

/// The periods for one kind of error.
#[derive(Default)]
pub(super) struct Excuses(Vec<Excuse>);

struct Excuse {
    /// The locks; `None` for all locks.
    names: Option<Vec<usize>>,
    /// The end; `None` while the period lasts.
    until: Option<Instant>,
}

impl Excuses {
    /// Begins a period for these locks, or for all locks. Returns its number.
    pub(super) fn begin(&mut self, names: Option<Vec<usize>>) -> usize {
        self.0.push(Excuse { names, until: None });
        self.0.len() - 1
    }

    pub(super) fn end(&mut self, number: usize) {
        self.0[number].until.get_or_insert_with(Instant::now);
    }

    /// Returns whether a period for this lock was not over at `since`, or had ended less than `before` earlier.
    pub(super) fn any(&self, name: usize, since: Instant, before: Duration) -> bool {
        self.0.iter().any(|excuse| {
            let is_meant = excuse.names.as_ref().is_none_or(|names| names.contains(&name));
            is_meant && excuse.until.is_none_or(|until| since < until + before)
        })
    }
}
