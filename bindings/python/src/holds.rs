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
use crate::interpreter_end;
use crate::interrupt::LastInterrupt;
use crate::lease::Lease;
use crate::names;

/// The leases that were not released yet, by owner and lock.
///
/// The core decides which owner holds which lock. This class only finds the Python objects, and drops the objects of
/// leases that the core has forgotten: when a caller would get one, and in a sweep. Sweeps keep the number of objects
/// below twice the number of leases that were held at the last sweep, plus [`SWEEP_AFTER`].
///
/// An owner's leases live until they are released, or until the owner ends. After the owner's end they live only while
/// the program refers to them. A lease without any reference could not be released by the program, so it is released
/// here.
///
/// Each method is one native call, so no signal handler and no other thread sees a half-done change. Python code can
/// run inside a method only where an object is created, dropped or called (a garbage collection, a finalizer), and that
/// code can call the client again. Therefore the mutex is never locked at such a place: a method removes the objects to
/// drop, unlocks the mutex, and drops the objects after that.
#[pyclass(frozen, module = "steadlock._native")]
pub(crate) struct Holds(Arc<SharedHolds>);

/// The part of [`Holds`] that weak references share.
struct SharedHolds {
    host: Host,
    tables: Mutex<LeaseTables>,
    /// Called with each lease that from now on lives only while the program refers to it.
    on_left: Py<PyAny>,
    /// Called when a lease is released because nothing refers to it any more: with its number, its name, its kind of
    /// owner, and whether to warn (the lease was valid, and the last level of its lock).
    on_dropped: Py<PyAny>,
}

#[derive(Default)]
struct LeaseTables {
    /// The leases of owners that have not ended, by owner and lock.
    held: HashMap<Option<u64>, HashMap<host::LockRef, Vec<Entry>>>,
    /// The leases of ended owners to which the program still refers.
    weak: HashMap<u64, Py<PyWeakrefReference>>,
    added_since_sweep: usize,
    kept_by_last_sweep: usize,
}

struct Entry {
    native: Arc<host::Lease>,
    lease: Py<PyAny>,
}

/// A sweep runs after this many added leases, plus as many as the last sweep kept.
const SWEEP_AFTER: usize = 64;

#[pymethods]
impl Holds {
    #[new]
    fn new(client: &Client, on_left: Py<PyAny>, on_dropped: Py<PyAny>) -> Self {
        Self(Arc::new(SharedHolds {
            host: client.host().clone(),
            tables: Mutex::default(),
            on_left,
            on_dropped,
        }))
    }

    /// Adds a lease. Returns whether it ran a sweep.
    fn add(&self, lease: Py<PyAny>, native: &Lease, key: LockRef, owner: Option<u64>) -> bool {
        let native = Arc::clone(&native.0);
        let mut tables = self.0.tables();
        let swept = (tables.added_since_sweep >= tables.kept_by_last_sweep + SWEEP_AFTER).then(|| tables.sweep());
        tables.added_since_sweep += 1;
        let keys = tables.held.entry(owner).or_default();
        let entry = Entry { native, lease };
        match keys.get_mut(&key.0) {
            Some(entries) => entries.push(entry),
            None => drop(keys.insert(key.0, vec![entry])),
        }
        drop(tables);
        swept.is_some()
    }

    /// Removes a lease by its number. Idempotent.
    fn discard(&self, number: u64, key: LockRef, owner: Option<u64>) {
        let mut tables = self.0.tables();
        let weak = tables.weak.remove(&number);
        let held = tables.take(owner, &key.0, |entry| entry.native.id() == number);
        drop(tables);
        drop((weak, held));
    }

    /// Returns the owner's last lease of this lock that is neither released nor forgotten.
    fn innermost(&self, py: Python<'_>, key: LockRef, owner: Option<u64>) -> Option<Py<PyAny>> {
        let mut tables = self.0.tables();
        let forgotten = tables.take(owner, &key.0, |entry| entry.native.is_forgotten());
        let entries = tables.held.get(&owner).and_then(|keys| keys.get(&key.0));
        let found = entries
            .and_then(|entries| entries.last())
            .map(|entry| entry.lease.clone_ref(py));
        drop(tables);
        drop(forgotten);
        found
    }

    fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let tables = self.0.tables();
        let mut leases: Vec<_> = tables
            .held
            .values()
            .flat_map(HashMap::values)
            .flatten()
            .map(|entry| (entry.native.id(), entry.lease.clone_ref(py)))
            .collect();
        let weak: Vec<_> = tables
            .weak
            .iter()
            .map(|(number, lease)| (*number, lease.clone_ref(py)))
            .collect();
        drop(tables);
        // The leases are in the order of their grants.
        leases.sort_by_key(|(number, _)| *number);
        let referenced = weak
            .iter()
            .filter_map(|(number, lease)| Some((*number, lease.bind(py).upgrade()?.unbind())));
        leases.extend(referenced);
        PyList::new(py, leases.into_iter().map(|(_, lease)| lease))
    }

    /// Called when these owners have ended. Their leases live from now on only while the program refers to them. Can be
    /// called during a garbage collection.
    fn owners_have_ended(&self, py: Python<'_>, owners: Vec<Option<u64>>) -> PyResult<()> {
        let mut interrupt = LastInterrupt::default();
        for owner in owners {
            let held = self.0.tables().held_by(py, owner);
            let mut levels: HashMap<host::LockRef, Levels> = HashMap::new();
            for (key, _) in &held {
                levels.entry(key.clone()).or_default().add();
            }
            for (key, entry) in held {
                let levels = levels.get(&key).cloned().unwrap_or_default();
                let ended = EndedHold {
                    owner,
                    key: &key,
                    entry,
                    levels,
                };
                self.0.keep_weakly(py, ended, &mut interrupt)?;
            }
        }
        interrupt.raise()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The mutex is free: no garbage collection runs while a thread holds it.
        if let Ok(tables) = self.0.tables.try_lock() {
            for entry in tables.held.values().flat_map(HashMap::values).flatten() {
                visit.call(&entry.lease)?;
            }
            for lease in tables.weak.values() {
                visit.call(lease)?;
            }
        }
        visit.call(&self.0.on_left)?;
        visit.call(&self.0.on_dropped)
    }

    fn __clear__(&self) {
        let tables = mem::take(&mut *self.0.tables());
        drop(tables);
    }
}

/// A lease of an ended owner.
struct EndedHold<'a> {
    owner: Option<u64>,
    /// The lock.
    key: &'a host::LockRef,
    entry: Entry,
    levels: Levels,
}

impl SharedHolds {
    fn tables(&self) -> MutexGuard<'_, LeaseTables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the reference to a lease of an ended owner by a weak one.
    fn keep_weakly(
        self: &Arc<Self>,
        py: Python<'_>,
        ended: EndedHold<'_>,
        interrupt: &mut LastInterrupt,
    ) -> PyResult<()> {
        let EndedHold {
            owner,
            key,
            entry: Entry { native, lease },
            levels,
        } = ended;
        let number = native.id();
        let owner_kind = kind_of_owner(lease.bind(py));
        let callback = LastReference {
            holds: Arc::downgrade(self),
            native,
            owner_kind,
            levels,
        };
        let reference = PyWeakrefReference::new_with(lease.bind(py), Bound::new(py, callback)?)?.unbind();
        let mut tables = self.tables();
        let held = tables.take(owner, key, |entry| entry.native.id() == number);
        let before = if held.is_empty() {
            Some(reference)
        } else {
            tables.weak.insert(number, reference)
        };
        drop(tables);
        if !held.is_empty() {
            interrupt.until_done(|| self.on_left.bind(py).call1((&lease,)))?;
        }
        drop((before, held));
        Ok(())
    }
}

impl LeaseTables {
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
                forgotten.extend(entries.extract_if(.., |entry| entry.native.is_forgotten()));
            }
            keys.retain(|_, entries| !entries.is_empty());
        }
        self.held.retain(|_, keys| !keys.is_empty());
        self.kept_by_last_sweep = self.held.values().flat_map(HashMap::values).map(Vec::len).sum();
        self.added_since_sweep = 0;
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

/// Returns the kind of a lease's owner, for messages. Reading these attributes runs no Python code, so no interrupt can
/// occur.
fn kind_of_owner(lease: &Bound<'_, PyAny>) -> String {
    let py = lease.py();
    let owner = lease.getattr(names::_owner(py));
    let kind = owner.and_then(|owner| owner.getattr(names::kind(py)));
    kind.and_then(|kind| kind.extract())
        .unwrap_or_else(|_| "callback".to_owned())
}

/// Makes the class at the import, because making it can start a garbage collection. At the first use, a finalizer in
/// that collection could need the class.
pub(crate) fn prepare(py: Python<'_>) {
    py.get_type::<LastReference>();
}

/// The callback of a weak reference: releases a lease of an ended owner when nothing refers to it any more, because the
/// program could not release it.
#[pyclass(frozen, module = "steadlock._native")]
struct LastReference {
    holds: Weak<SharedHolds>,
    native: Arc<host::Lease>,
    owner_kind: String,
    levels: Levels,
}

/// How many levels of one lock an ended owner still holds. Only the last level leads to a warning.
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
        let Some(holds) = self.holds.upgrade() else {
            return Ok(());
        };
        let number = self.native.id();
        let reference = holds.tables().weak.remove(&number);
        drop(reference);
        if self.native.is_released() || interpreter_end::is_finalizing(py)? {
            return Ok(());
        }
        let must_warn = self.native.is_valid() && self.levels.is_last();
        // Nothing waits for the result of this release.
        drop(holds.host.start(Op::Release { lease: number }));
        let dropped = (number, self.native.name(), self.owner_kind.as_str(), must_warn);
        holds.on_dropped.bind(py).call1(dropped).map(|_| ())
    }
}
