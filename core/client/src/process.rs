//! Which process this is.

use std::fmt;
use std::sync::OnceLock;

/// A process, as those see it who were made in it: whether they still are in it, or
/// in a fork of it.
///
/// A process id alone does not tell. The child of a fork into a PID namespace of its
/// own is 1 there, and so may its parent be; and an id is used again once its process
/// is gone. So forks are counted as well, by a handler that the C library calls in
/// each child. Only who makes a child without the C library's `fork`, and gives it
/// the id of its parent, is not seen.
#[derive(Clone, Copy)]
pub struct Process(&'static Known);

/// A process that this one is or descends from.
struct Known {
    mark: Mark,
    /// How many forks are known to lie between the first process and this.
    forks: u64,
    /// The next one. Reached by atomics only: at a fork, another thread may hold any lock.
    child: OnceLock<Box<Self>>,
}

static FIRST: OnceLock<Known> = OnceLock::new();

impl Process {
    /// This process. It knows of forks from its first call on.
    #[must_use]
    pub fn current() -> Self {
        let mut known = FIRST.get_or_init(|| Known::new(0));
        while !known.mark.is_current() {
            known = known.child.get_or_init(|| Box::new(Known::new(known.forks + 1)));
        }
        Self(known)
    }

    /// The processes that this one descends from by forks, as far as they are known.
    #[cfg(feature = "native")]
    pub(crate) fn ancestors() -> Vec<Self> {
        let mut ancestors = Vec::new();
        let mut known = FIRST.get_or_init(|| Known::new(0));
        while !known.mark.is_current() {
            ancestors.push(Self(known));
            known = known.child.get_or_init(|| Box::new(Known::new(known.forks + 1)));
        }
        ancestors
    }

    /// Whether it is the one that runs this. Takes as long as asking for the process id.
    #[must_use]
    pub fn is_current(self) -> bool {
        self.0.mark.is_current()
    }

    /// As `is_current`, by the counted forks alone: takes no system call. For what goes on
    /// with something that `is_current` let begin.
    pub(crate) fn is_unforked(self) -> bool {
        self.0.mark.is_unforked()
    }
}

/// Another text in a child than in its parent.
impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.forks {
            0 => write!(f, "{}", self.0.mark.id),
            forks => write!(f, "{}.{forks}", self.0.mark.id),
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Process({self})")
    }
}

impl Known {
    fn new(forks: u64) -> Self {
        Self {
            mark: Mark::of_this_process(),
            forks,
            child: OnceLock::new(),
        }
    }
}

/// What tells a process from its forks.
struct Mark {
    id: u32,
    /// `None` if the C library had no memory for another handler; then the id has to do.
    #[cfg(feature = "native")]
    guard: Option<forkguard::Guard>,
    #[cfg(test)]
    pretended_forks: u64,
}

impl Mark {
    fn of_this_process() -> Self {
        Self {
            id: id(),
            #[cfg(feature = "native")]
            guard: forkguard::Guard::try_new().ok(),
            #[cfg(test)]
            pretended_forks: tests::pretended_forks(),
        }
    }

    fn is_current(&self) -> bool {
        self.is_unforked() && self.id == id()
    }

    fn is_unforked(&self) -> bool {
        #[cfg(test)]
        if self.pretended_forks != tests::pretended_forks() || tests::pretended_id().is_some_and(|id| id != self.id) {
            return false;
        }
        #[cfg(feature = "native")]
        if let Some(mut guard) = self.guard.clone() {
            // A guard notes what it detects; this one is to say the same again.
            return !guard.detected_fork();
        }
        self.id == id()
    }
}

fn id() -> u32 {
    #[cfg(test)]
    if let Some(pretended) = tests::pretended_id() {
        return pretended;
    }
    // WebAssembly has no processes, and what it runs in has no forks.
    if cfg!(target_family = "wasm") {
        0
    } else {
        std::process::id()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::Process;

    thread_local! {
        /// A thread that pretends to run in a forked child: its id, and its forks. A
        /// real fork needs unsafe code; the bindings' tests do one.
        static PRETENDED: Cell<(Option<u32>, u64)> = const { Cell::new((None, 0)) };
    }

    pub(super) fn pretended_id() -> Option<u32> {
        PRETENDED.get().0
    }

    pub(super) fn pretended_forks() -> u64 {
        PRETENDED.get().1
    }

    /// Runs `work` as a child with this id would.
    pub(crate) fn as_child<T>(id: u32, work: impl FnOnce() -> T) -> T {
        pretending((Some(id), 0), work)
    }

    /// Runs `work` as a child would whose id is that of its parent, after so many forks.
    pub(crate) fn as_child_of_the_same_id<T>(forks: u64, work: impl FnOnce() -> T) -> T {
        pretending((None, forks), work)
    }

    fn pretending<T>(child: (Option<u32>, u64), work: impl FnOnce() -> T) -> T {
        let before = PRETENDED.replace(child);
        let result = work();
        PRETENDED.set(before);
        result
    }

    #[test]
    fn a_child_is_another_process_whatever_its_id() {
        let parent = Process::current();
        let name = parent.to_string();
        let child = as_child_of_the_same_id(1, || {
            assert!(!parent.is_current());
            assert_ne!(Process::current().to_string(), name);
            Process::current()
        });
        assert!(parent.is_current() && !child.is_current());
        as_child_of_the_same_id(2, || assert!(!parent.is_current() && !child.is_current()));
        as_child(1, || assert!(!parent.is_current() && !child.is_current()));
        as_child_of_the_same_id(1, || assert!(child.is_current()));
    }

    #[test]
    fn a_process_stays_itself() {
        let first = Process::current();
        for _ in 0..10 {
            assert!(first.is_current());
            assert_eq!(Process::current().to_string(), std::process::id().to_string());
        }
    }
}
