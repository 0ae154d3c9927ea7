//! Which process this is.

/// The process id; in a forked child another than in its parent.
pub(crate) fn id() -> u32 {
    #[cfg(test)]
    if let Some(pretended) = tests::PRETENDED.get() {
        return pretended;
    }
    std::process::id()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        /// A thread that pretends to run in a forked child. A real fork needs
        /// unsafe code; the bindings' tests do one.
        pub(super) static PRETENDED: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Runs `work` as a child with this id would.
    pub(crate) fn as_child<T>(id: u32, work: impl FnOnce() -> T) -> T {
        let before = PRETENDED.replace(Some(id));
        let result = work();
        PRETENDED.set(before);
        result
    }
}
