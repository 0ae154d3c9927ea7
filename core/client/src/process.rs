//! Identifies the current process, to detect forks.

use std::fmt;
use std::mem;
use std::ops::Deref;

use once_cell::race::OnceBox;

/// A process, recorded when this value was made. The value tells later whether the code still runs in that process or
/// in a fork of it.
///
/// A process id alone is not enough. The first process of a PID namespace has id 1, so a parent and its child in a new
/// namespace can both have that id; and the system reuses the id of a process that ended. The C library therefore calls
/// a handler in each forked child, and this module counts the forks. One case remains undetected: a child that was made
/// without the C library's `fork` and given the id of its parent.
#[derive(Clone, Copy)]
pub struct Process(&'static ProcessEntry);

/// An entry for this process or for one of its ancestors.
struct ProcessEntry {
    mark: Mark,
    /// The number of known forks between the first process and that of this entry.
    forks: u64,
    /// The entry of a forked child. Only atomics guard it, because another thread can hold any mutex at a fork.
    child: OnceBox<Self>,
}

static FIRST: OnceBox<ProcessEntry> = OnceBox::new();

impl Process {
    /// Returns the current process. Forks are counted from the first call on.
    #[must_use]
    pub fn current() -> Self {
        let mut entry = FIRST.get_or_init(|| Box::new(ProcessEntry::new(0)));
        while !entry.mark.is_current() {
            entry = entry.child.get_or_init(|| Box::new(ProcessEntry::new(entry.forks + 1)));
        }
        Self(entry)
    }

    /// Returns the processes from which this one descends by forks, as far as they are known.
    #[cfg(feature = "native")]
    pub(crate) fn ancestors() -> Vec<Self> {
        let mut ancestors = Vec::new();
        let mut entry = FIRST.get_or_init(|| Box::new(ProcessEntry::new(0)));
        while !entry.mark.is_current() {
            ancestors.push(Self(entry));
            entry = entry.child.get_or_init(|| Box::new(ProcessEntry::new(entry.forks + 1)));
        }
        ancestors
    }

    /// Whether this is the process that runs the call. Costs one system call for the process id.
    #[must_use]
    pub fn is_current(self) -> bool {
        self.0.mark.is_current()
    }

    /// Whether no fork was counted since this value was made. Makes a system call only if the handler of forks is
    /// missing (see `Mark::guard`): it then compares process ids. For the later steps of work that `is_current` allowed
    /// to begin.
    pub(crate) fn is_unforked(self) -> bool {
        self.0.mark.is_unforked()
    }
}

/// A value that each process has for itself: the process that made it, and each process that is forked later.
///
/// A child must not use the value of its parent: at the fork, another thread may have held a mutex in it or changed it,
/// and that thread does not exist in the child. At the first use in a child, the child gets a value of its own, and
/// locks no mutex for this. A child never drops the values of its ancestors.
pub struct PerProcess<T> {
    process: Process,
    /// `None` while it is dropped.
    value: Option<T>,
    for_child: fn(&T) -> T,
    child: OnceBox<Self>,
}

impl<T> PerProcess<T> {
    /// `for_child` makes the value of a child from its parent's. The function must not lock a mutex in the parent's
    /// value.
    pub fn new(value: T, for_child: fn(&T) -> T) -> Self {
        Self {
            process: Process::current(),
            value: Some(value),
            for_child,
            child: OnceBox::new(),
        }
    }

    /// Returns the value of the process that made `self`. For data that never changes.
    pub(crate) fn original(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("a dropped value is used"),
        }
    }
}

/// The value of this process.
impl<T> Deref for PerProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let mut own = self;
        while !own.process.is_current() {
            let for_child = || Box::new(Self::new((own.for_child)(own.original()), own.for_child));
            own = own.child.get_or_init(for_child);
        }
        own.original()
    }
}

impl<T: Default> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new(T::default(), |_| T::default())
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if !self.process.is_current() {
            mem::forget(self.value.take());
        }
    }
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerProcess")
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

/// Writes a text that differs between a child and its parent.
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

impl ProcessEntry {
    fn new(forks: u64) -> Self {
        Self {
            mark: Mark::of_this_process(),
            forks,
            child: OnceBox::new(),
        }
    }
}

/// The data that distinguishes a process from its forks.
struct Mark {
    id: u32,
    /// `None` if the C library had no memory for another handler. Then only the process id tells forks apart.
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
            // Asks a copy, because a guard reports each fork only once.
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
    // WebAssembly has no process ids and no forks.
    if cfg!(target_family = "wasm") {
        0
    } else {
        std::process::id()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;
    use std::sync::{Arc, Mutex};

    use super::{PerProcess, Process};

    thread_local! {
        /// The process id and the number of forks that this thread pretends to have, as if it ran in a forked child. A
        /// real fork needs unsafe code; the tests of the bindings do one.
        static PRETENDED: Cell<PretendedChild> = const { Cell::new(PretendedChild { id: None, forks: 0 }) };
    }

    #[derive(Clone, Copy)]
    struct PretendedChild {
        /// `None` for the real process id.
        id: Option<u32>,
        forks: u64,
    }

    pub(super) fn pretended_id() -> Option<u32> {
        PRETENDED.get().id
    }

    pub(super) fn pretended_forks() -> u64 {
        PRETENDED.get().forks
    }

    /// Runs `work` as in a child with this process id.
    pub(crate) fn as_child<T>(id: u32, work: impl FnOnce() -> T) -> T {
        let child = PretendedChild { id: Some(id), forks: 0 };
        pretending(child, work)
    }

    /// Runs `work` as in a child with its parent's process id, after this number of forks.
    pub(crate) fn as_child_of_the_same_id<T>(forks: u64, work: impl FnOnce() -> T) -> T {
        pretending(PretendedChild { id: None, forks }, work)
    }

    fn pretending<T>(child: PretendedChild, work: impl FnOnce() -> T) -> T {
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
    fn each_process_has_a_value_of_its_own() {
        let parents = PerProcess::new(Mutex::new(1), |_| Mutex::new(0));
        // As if another thread had locked it at the moment of the fork.
        let locked = parents.lock().unwrap();
        as_child_of_the_same_id(1, || {
            *parents.lock().unwrap() += 5;
            assert_eq!(*parents.lock().unwrap(), 5);
            as_child_of_the_same_id(2, || assert_eq!(*parents.lock().unwrap(), 0));
            assert_eq!(*parents.lock().unwrap(), 5);
        });
        assert_eq!(*locked, 1);
    }

    #[test]
    fn a_child_does_not_drop_the_values_of_its_parent() {
        let values = Arc::new(());
        let of_both = || PerProcess::new(Arc::clone(&values), Arc::clone);
        let (dropped_by_the_parent, dropped_by_the_child) = (of_both(), of_both());
        assert_eq!(Arc::strong_count(&values), 3);
        as_child_of_the_same_id(1, || {
            assert_eq!(Arc::strong_count(&dropped_by_the_child), 4);
            drop(dropped_by_the_child);
            assert_eq!(Arc::strong_count(&values), 3, "only the child's own is dropped");
        });
        drop(dropped_by_the_parent);
        assert_eq!(Arc::strong_count(&values), 2);
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
