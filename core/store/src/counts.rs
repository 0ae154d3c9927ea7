//! Counts how often each command was called and refused.

/// The counts of all commands, by their positions in the table.
#[derive(Debug)]
pub(crate) struct Counts {
    counts: Vec<(&'static str, Count)>,
}

/// The counts of one command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) rejected: u64,
}

impl Count {
    /// Returns whether the command was called, correctly or not.
    pub(crate) const fn is_used(self) -> bool {
        self.calls > 0 || self.rejected > 0
    }
}

impl Counts {
    /// Creates counts of zero for commands with these names.
    pub(crate) fn new(names: impl Iterator<Item = &'static str>) -> Self {
        Self {
            counts: names.map(|name| (name, Count::default())).collect(),
        }
    }

    /// Counts a command that was executed, and whether it failed.
    pub(crate) fn record_call(&mut self, command: usize, has_failed: bool) {
        let (_, count) = &mut self.counts[command];
        count.calls += 1;
        count.failed += u64::from(has_failed);
    }

    /// Counts a command that was refused before it was executed, for example because its arguments were wrong.
    pub(crate) fn record_rejection(&mut self, command: usize) {
        self.counts[command].1.rejected += 1;
    }

    pub(crate) fn reset(&mut self) {
        for (_, count) in &mut self.counts {
            *count = Count::default();
        }
    }

    /// Returns the number of commands.
    pub(crate) fn commands(&self) -> usize {
        self.counts.len()
    }

    /// Returns the counts of each command, with its name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, Count)> {
        self.counts.iter().copied()
    }
}
