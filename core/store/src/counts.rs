//! How often each command was called and refused.

/// The counts of all commands, by their places in the table.
#[derive(Debug)]
pub(crate) struct Counts {
    of: Vec<(&'static str, Count)>,
}

/// Those of one command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) rejected: u64,
}

impl Count {
    /// Whether it was called, or called wrongly.
    pub(crate) const fn is_used(self) -> bool {
        self.calls > 0 || self.rejected > 0
    }
}

impl Counts {
    /// Of commands with these names, which were never called.
    pub(crate) fn new(names: impl Iterator<Item = &'static str>) -> Self {
        Self {
            of: names.map(|name| (name, Count::default())).collect(),
        }
    }

    /// A command was carried out; whether it failed.
    pub(crate) fn called(&mut self, command: usize, has_failed: bool) {
        let (_, count) = &mut self.of[command];
        count.calls += 1;
        count.failed += u64::from(has_failed);
    }

    /// A command was not carried out, for it was called wrongly.
    pub(crate) fn rejected(&mut self, command: usize) {
        self.of[command].1.rejected += 1;
    }

    pub(crate) fn reset(&mut self) {
        for (_, count) in &mut self.of {
            *count = Count::default();
        }
    }

    /// How many commands there are.
    pub(crate) fn commands(&self) -> usize {
        self.of.len()
    }

    /// The counts of each command, with its name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, Count)> {
        self.of.iter().copied()
    }
}
