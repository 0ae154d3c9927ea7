//! When something may happen that otherwise must not: from when to when, and to which locks.

use std::time::Duration;

use tokio::time::Instant;

/// What excuses one thing.
#[derive(Default)]
pub(super) struct Excuses(Vec<Excuse>);

struct Excuse {
    /// All of them, if none are named.
    names: Option<Vec<usize>>,
    until: Option<Instant>,
}

impl Excuses {
    /// From now on, for these locks or for all. Gives its number.
    pub(super) fn begin(&mut self, names: Option<Vec<usize>>) -> usize {
        self.0.push(Excuse { names, until: None });
        self.0.len() - 1
    }

    /// No more.
    pub(super) fn end(&mut self, number: usize) {
        self.0[number].until.get_or_insert_with(Instant::now);
    }

    /// Whether one held for this lock at some time since then, or ended so long before.
    pub(super) fn any(&self, name: usize, since: Instant, before: Duration) -> bool {
        self.0.iter().any(|excuse| {
            let is_meant = excuse.names.as_ref().is_none_or(|names| names.contains(&name));
            is_meant && excuse.until.is_none_or(|until| since < until + before)
        })
    }
}
