//! The class `Holds`: finds the Python objects of the leases that a client holds.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyWeakrefMethods, PyWeakrefReference};
use steadlock::host::{self, Host, Op};

use crate::client::{Client, LockRef};
use crate::ending;
use crate::lease::Lease;
use crate::names;
use crate::struck::Struck;

/// The leases that were not released yet, by owner and lock.
///
/// The core decides which owner holds which lock. This class only finds the Python objects, and drops objects that the
/// core has forgotten: when a caller finds one, and in a sweep. It therefore never has many more than twice as many
/// objects as were held at one time.
///
/// An owner's leases live as long as the owner. After the owner's end they live only while the program refers to them.
/// A lease without any reference could not be released by the program, so it is released here.
///
/// Each method is one native call, so no signal handler and no other thread sees a half-done change. Python code can
/// run inside a method only where an object is created, dropped or called (a garbage collection, a finalizer), and that
/// code can call the client again. Therefore the mutex is never locked at such a place: a method removes the objects to
/// drop, unlocks the mutex, and drops the objects after that.
#[pyclass(frozen, module = "steadlock._native")]
pub(crate) struct Holds(Arc<Book>);

struct Book {
    host: Host,
    pages: Mutex<Pages>,
    /// Called with each lease that from now on lives only while the program refers to it.
    on_left: Py<PyAny>,
    /// Called when a lease is released because nothing refers to it any more: with its number, its name, its kind of
    /// owner, and whether to warn (the lease was valid, and the last level of its lock).
    on_dropped: Py<PyAny>,
}

#[derive(Default)]
struct Pages {
    held: HashMap<Option<u64>, HashMap<host::LockRef, Vec<Entry>>>,
    /// The leases of ended owners to which the program still refers.
    left: HashMap<u64, Py<PyWeakrefReference>>,
    /// How many leases were added since the last sweep.
    added: usize,
    /// How many leases the last sweep left.
    remained: usize,
}

struct Entry {
    native: Arc<host::Lease>,
    lease: Py<PyAny>,
}

/// A sweep runs when the number of added leases exceeds by this the number that the last sweep left.
const SWEEP_AFTER: usize = 64;

#[pymethods]
impl Holds {
    #[new]
    fn new(client: &Client, on_left: Py<PyAny>, on_dropped: Py<PyAny>) -> Self {
        Self(Arc::new(Book {
            host: client.host().clone(),
            pages: Mutex::default(),
            on_left,
            on_dropped,
        }))
    }

    /// Adds a lease. Returns whether it swept.
    fn add(&self, lease: Py<PyAny>, native: &Lease, key: LockRef, owner: Option<u64>) -> bool {
        let native = Arc::clone(&native.0);
        let mut pages = self.0.pages();
        let swept = (pages.added >= pages.remained + SWEEP_AFTER).then(|| pages.sweep());
        pages.added += 1;
        let keys = pages.held.entry(owner).or_default();
        let entry = Entry { native, lease };
        match keys.get_mut(&key.0) {
            Some(entries) => entries.push(entry),
            None => drop(keys.insert(key.0, vec![entry])),
        }
        drop(pages);
        swept.is_some()
    }

    /// Removes a lease by its number. Idempotent.
    fn discard(&self, number: u64, key: LockRef, owner: Option<u64>) {
        let mut pages = self.0.pages();
        let left = pages.left.remove(&number);
        let held = pages.take(owner, &key.0, |entry| entry.native.id() == number);
        drop(pages);
        drop((left, held));
    }

    /// Returns the last lease of this lock that the owner acquired and still holds.
    fn innermost(&self, py: Python<'_>, key: LockRef, owner: Option<u64>) -> Option<Py<PyAny>> {
        let mut pages = self.0.pages();
        let forgotten = pages.take(owner, &key.0, |entry| entry.native.is_forgotten());
        let entries = pages.held.get(&owner).and_then(|keys| keys.get(&key.0));
        let found = entries
            .and_then(|entries| entries.last())
            .map(|entry| entry.lease.clone_ref(py));
        drop(pages);
        drop(forgotten);
        found
    }

    fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let pages = self.0.pages();
        let mut leases: Vec<_> = pages
            .held
            .values()
            .flat_map(HashMap::values)
            .flatten()
            .map(|entry| (entry.native.id(), entry.lease.clone_ref(py)))
            .collect();
        let left: Vec<_> = pages
            .left
            .iter()
            .map(|(number, lease)| (*number, lease.clone_ref(py)))
            .collect();
        drop(pages);
        // The leases are in the order of their grants.
        leases.sort_by_key(|(number, _)| *number);
        let left = left
            .iter()
            .filter_map(|(number, lease)| Some((*number, lease.bind(py).upgrade()?.unbind())));
        leases.extend(left);
        PyList::new(py, leases.into_iter().map(|(_, lease)| lease))
    }

    /// Called when these owners have ended. Their leases live from now on only while the program refers to them. Can be
    /// called during a garbage collection.
    fn owners_have_ended(&self, py: Python<'_>, owners: Vec<Option<u64>>) -> PyResult<()> {
        let mut struck = Struck::default();
        for owner in owners {
            let held = self.0.pages().held_by(py, owner);
            let mut levels: HashMap<host::LockRef, Levels> = HashMap::new();
            for (key, _) in &held {
                levels.entry(key.clone()).or_default().add();
            }
            for (key, entry) in held {
                let levels = levels.get(&key).cloned().unwrap_or_default();
                self.0.leave(py, (owner, &key), entry, levels, &mut struck)?;
            }
        }
        struck.raised()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The mutex is free: no garbage collection runs while a thread holds it.
        if let Ok(pages) = self.0.pages.try_lock() {
            for entry in pages.held.values().flat_map(HashMap::values).flatten() {
                visit.call(&entry.lease)?;
            }
            for lease in pages.left.values() {
                visit.call(lease)?;
            }
        }
        visit.call(&self.0.on_left)?;
        visit.call(&self.0.on_dropped)
    }

    fn __clear__(&self) {
        let pages = mem::take(&mut *self.0.pages());
        drop(pages);
    }
}

impl Book {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the reference to a lease of an ended owner by a weak one.
    fn leave(
        self: &Arc<Self>,
        py: Python<'_>,
        (owner, key): (Option<u64>, &host::LockRef),
        entry: Entry,
        levels: Levels,
        struck: &mut Struck,
    ) -> PyResult<()> {
        let Entry { native, lease } = entry;
        let number = native.id();
        let owner_kind = kind_of_owner(lease.bind(py));
        let watching = LastReference {
            book: Arc::downgrade(self),
            native,
            owner_kind,
            levels,
        };
        let reference = PyWeakrefReference::new_with(lease.bind(py), Bound::new(py, watching)?)?.unbind();
        let mut pages = self.pages();
        let held = pages.take(owner, key, |entry| entry.native.id() == number);
        let before = if held.is_empty() {
            Some(reference)
        } else {
            pages.left.insert(number, reference)
        };
        drop(pages);
        if !held.is_empty() {
            struck.until_done(|| self.on_left.bind(py).call1((&lease,)))?;
        }
        drop((before, held));
        Ok(())
    }
}

impl Pages {
    /// Removes the wanted entries. The caller must drop them after the mutex is free.
    fn take(&mut self, owner: Option<u64>, key: &host::LockRef, is_wanted: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let Some(keys) = self.held.get_mut(&owner) else {
            return Vec::new();
        };
        let Some(entries) = keys.get_mut(key) else {
            return Vec::new();
        };
        if !entries.iter().any(&is_wanted) {
            return Vec::new();
        }
        let (taken, kept) = mem::take(entries).into_iter().partition(is_wanted);
        *entries = kept;
        if entries.is_empty() {
            keys.remove(key);
            if keys.is_empty() {
                self.held.remove(&owner);
            }
        }
        taken
    }

    /// Removes the entries that the core has forgotten. The caller must drop them after the mutex is free.
    fn sweep(&mut self) -> Vec<Entry> {
        let mut forgotten = Vec::new();
        for keys in self.held.values_mut() {
            for entries in keys.values_mut() {
                let (gone, known) = mem::take(entries)
                    .into_iter()
                    .partition(|entry| entry.native.is_forgotten());
                *entries = known;
                let mut gone: Vec<Entry> = gone;
                forgotten.append(&mut gone);
            }
            keys.retain(|_, entries| !entries.is_empty());
        }
        self.held.retain(|_, keys| !keys.is_empty());
        self.remained = self.held.values().flat_map(HashMap::values).map(Vec::len).sum();
        self.added = 0;
        forgotten
    }

    fn held_by(&self, py: Python<'_>, owner: Option<u64>) -> Vec<(host::LockRef, Entry)> {
        let keys = self.held.get(&owner);
        let entries = keys.into_iter().flatten();
        let copy = |entry: &Entry| Entry {
            native: Arc::clone(&entry.native),
            lease: entry.lease.clone_ref(py),
        };
        entries
            .flat_map(|(key, entries)| entries.iter().map(|entry| (key.clone(), copy(entry))))
            .collect()
    }
}

/// Returns the kind of a lease's owner, for messages. These attributes run no Python code, so no interrupt can occur.
fn kind_of_owner(lease: &Bound<'_, PyAny>) -> String {
    let py = lease.py();
    let owner = lease.getattr(names::_owner(py));
    let kind = owner.and_then(|owner| owner.getattr(names::kind(py)));
    kind.and_then(|kind| kind.extract())
        .unwrap_or_else(|_| "callback".to_owned())
}

/// Runs at the import, to make the class early. Making it can start a garbage collection, and a finalizer in that could
/// need the class.
pub(crate) fn prepare(py: Python<'_>) {
    py.get_type::<LastReference>();
}

/// The callback of a weak reference: releases a lease of an ended owner when nothing refers to it any more, because the
/// program could not release it.
#[pyclass(frozen, module = "steadlock._native")]
struct LastReference {
    book: Weak<Book>,
    native: Arc<host::Lease>,
    owner_kind: String,
    levels: Levels,
}

/// How many levels of one lock an ended owner has left. Only the last level leads to a warning.
#[derive(Clone, Default)]
struct Levels(Arc<AtomicUsize>);

impl Levels {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn is_last(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= 1
    }
}

impl Drop for LastReference {
    fn drop(&mut self) {
        self.levels.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[pymethods]
impl LastReference {
    fn __call__(&self, py: Python<'_>, _reference: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(book) = self.book.upgrade() else {
            return Ok(());
        };
        let number = self.native.id();
        let reference = book.pages().left.remove(&number);
        drop(reference);
        if self.native.is_released() || ending::is_finalizing(py)? {
            return Ok(());
        }
        let is_told = self.native.is_valid() && self.levels.is_last();
        // The release goes on without a waiter.
        drop(book.host.start(Op::Release { lease: number }));
        let told = (number, self.native.name(), self.owner_kind.as_str(), is_told);
        book.on_dropped.bind(py).call1(told).map(|_| ())
    }
}
