//! The holders of each lock, as the callers see them, and the promises about them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadlock::{Lease, LostReason};
use tokio::time::Instant;

use super::excuses::Excuses;
use super::trace::Trace;
use crate::checks::Broken;

/// The time within which the loss of an invalid lease must be reported.
const LOSS_REPORT: Duration = Duration::from_millis(1_500);
/// The time after an outage within which a server is reachable again: clients reconnect, and repeat delayed calls.
const RECOVERY: Duration = Duration::from_secs(8);

/// The longest time from the end of a hold until a waiter is granted the lock.
const WOKEN: Duration = Duration::from_millis(500);

pub(super) struct Ledger {
    trace: Arc<Trace>,
    /// Whether any server may lose any data. Then a lock can have two holders.
    is_lossy: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: BTreeMap<u64, Held>,
    next: u64,
    tokens: BTreeMap<usize, u64>,
    /// The time until which each job is done at least.
    done: BTreeMap<usize, Instant>,
    busy: BTreeMap<usize, Busy>,
    /// The number of callers that wait for each lock.
    waiting: BTreeMap<usize, usize>,
    /// The time since which a lock is free although a caller waits for it.
    free_since: BTreeMap<usize, Instant>,
    /// The periods in which renewals may fail to reach a server. Leases may be lost then.
    losses: Excuses,
    /// The periods in which a server may be unavailable. Calls may fail then.
    errors: Excuses,
    /// The time at which a server lost the last writes of a lock.
    lost_data: BTreeMap<usize, Instant>,
    grants: u64,
    lost: u64,
    broken: Option<Broken>,
}

struct Held {
    client: usize,
    name: usize,
    lease: Arc<Lease>,
    since: Instant,
    /// The length of the lease, if it is auto-renewed.
    renewed: Option<Duration>,
    invalid_since: Option<Instant>,
    /// The time since which no check has found a record of the lease.
    unbacked_since: Option<Instant>,
    is_reported: bool,
}

/// A client of which at least one task requests or holds a lock.
struct Busy {
    /// The number of these tasks.
    count: usize,
    since: Instant,
}

impl Ledger {
    pub(super) fn new(trace: &Arc<Trace>, is_lossy: bool) -> Arc<Self> {
        Arc::new(Self {
            is_lossy,
            trace: Arc::clone(trace),
            state: Mutex::default(),
        })
    }

    /// Notes a broken promise. Only the first one counts.
    pub(super) fn break_promise(&self, invariant: &'static str, what: String) {
        self.trace.note(format_args!("{invariant} is broken: {what}"));
        self.lock().broken.get_or_insert(Broken { invariant, what });
    }

    pub(super) fn broken(&self) -> Option<Broken> {
        self.lock().broken.clone()
    }

    pub(super) fn grants(&self) -> u64 {
        self.lock().grants
    }

    /// Returns the number of auto-renewed leases that were lost.
    pub(super) fn lost(&self) -> u64 {
        self.lock().lost
    }

    /// Notes that a caller was granted a lease.
    pub(super) fn granted(&self, client: usize, name: usize, lease: &Arc<Lease>, renewed: Option<Duration>) -> u64 {
        let token = lease.token();
        self.trace
            .note(format_args!("client {client} holds lock {name}, token {token:?}"));
        let mut state = self.lock();
        state.grants += 1;
        let last = token.and_then(|token| state.tokens.insert(name, token));
        let is_kept = !self.is_lossy && !state.lost_data.contains_key(&name);
        let is_done = is_kept && state.done.get(&name).is_some_and(|until| Instant::now() < *until);
        let id = state.next;
        state.next += 1;
        let held = Held {
            client,
            name,
            lease: Arc::clone(lease),
            since: Instant::now(),
            renewed,
            invalid_since: None,
            unbacked_since: None,
            is_reported: false,
        };
        state.held.insert(id, held);
        drop(state);
        if let (Some(last), Some(token)) = (last, token)
            && token <= last
        {
            self.break_promise("tokens rise", format!("lock {name} gave {token} after {last}"));
        }
        if is_done {
            self.break_promise(
                "a job that is done is not run",
                format!("client {client} runs job {name}"),
            );
        }
        self.check_exclusion();
        id
    }

    /// Notes that a run of a job has ended well, after which the job is done until this time.
    pub(super) fn is_done(&self, name: usize, until: Instant) {
        let mut state = self.lock();
        let known = state.done.entry(name).or_insert(until);
        *known = until.max(*known);
    }

    /// Notes that a caller is about to release a lease, or has dropped it.
    pub(super) fn released(&self, id: u64) {
        self.check();
        self.lock().held.remove(&id);
    }

    /// Notes that a task of a client begins to request locks. `idle` notes that the task is done with them.
    pub(super) fn busy(&self, client: usize) {
        let mut state = self.lock();
        let since = Instant::now();
        let busy = state.busy.entry(client).or_insert(Busy { count: 0, since });
        busy.count += 1;
    }

    pub(super) fn idle(&self, client: usize) {
        let mut state = self.lock();
        if let Some(busy) = state.busy.get_mut(&client) {
            busy.count -= 1;
            if busy.count == 0 {
                state.busy.remove(&client);
            }
        }
    }

    /// Returns since when tasks of a client have requested or held locks without a break; `None` if none does now.
    pub(super) fn busy_since(&self, client: usize) -> Option<Instant> {
        self.lock().busy.get(&client).map(|busy| busy.since)
    }

    /// Notes that a caller begins to wait for a lock.
    pub(super) fn waits(&self, name: usize) {
        *self.lock().waiting.entry(name).or_default() += 1;
    }

    /// Notes that a caller has stopped waiting.
    pub(super) fn wait_ended(&self, name: usize) {
        if let Some(count) = self.lock().waiting.get_mut(&name) {
            *count -= 1;
        }
    }

    /// Checks that a free lock is soon granted to a waiter.
    pub(super) fn check_wakes(&self, names: usize, is_held: impl Fn(usize) -> bool) {
        let now = Instant::now();
        let mut broken = Vec::new();
        let mut state = self.lock();
        let State {
            waiting,
            free_since,
            errors,
            ..
        } = &mut *state;
        for name in 0..names {
            let count = waiting.get(&name).copied().unwrap_or(0);
            if count == 0 || is_held(name) {
                free_since.remove(&name);
                continue;
            }
            let since = *free_since.entry(name).or_insert(now);
            if now > since + WOKEN && !errors.any(name, since, RECOVERY) {
                broken.push(format!("lock {name} is free, and {count} callers wait for it"));
            }
        }
        drop(state);
        for what in broken {
            self.break_promise("who waits is woken", what);
        }
    }

    /// Begins a period in which renewals of these locks, or of all, may fail to reach a server.
    pub(super) fn excuse_losses(&self, names: Option<Vec<usize>>) -> usize {
        self.lock().losses.begin(names)
    }

    pub(super) fn end_loss_excuse(&self, number: usize) {
        self.lock().losses.end(number);
    }

    /// Begins a period in which the server of these locks, or of all, may be unavailable.
    pub(super) fn excuse_errors(&self, names: Option<Vec<usize>>) -> usize {
        self.lock().errors.begin(names)
    }

    pub(super) fn end_error_excuse(&self, number: usize) {
        self.lock().errors.end(number);
    }

    /// Returns whether a call that began at `since` may fail because its server was unavailable.
    pub(super) fn has_excuse(&self, name: usize, since: Instant) -> bool {
        self.lock().errors.any(name, since, RECOVERY)
    }

    /// Notes that a replica took over without the last writes of these locks.
    pub(super) fn lose_data(&self, names: &[usize]) {
        let lost = names.iter().map(|name| (*name, Instant::now()));
        self.lock().lost_data.extend(lost);
    }

    /// Checks all leases.
    pub(super) fn check(&self) {
        self.check_exclusion();
        self.check_losses();
    }

    /// Checks that every valid lease has a record. If a server may have lost the record, the holder of an auto-renewed
    /// lease must learn of the loss by the next renewal. The holder of a fixed lease need not learn of it.
    pub(super) fn check_backing(&self, has_record: impl Fn(usize) -> bool) {
        let now = Instant::now();
        let mut broken = Vec::new();
        let mut state = self.lock();
        let State { held, lost_data, .. } = &mut *state;
        for held in held.values_mut().filter(|held| held.lease.is_valid()) {
            if has_record(held.name) {
                held.unbacked_since = None;
                continue;
            }
            let since = *held.unbacked_since.get_or_insert(now);
            let may_last = match held.renewed {
                _ if !self.is_lossy && !held.may_be_forgotten(lost_data) => Duration::ZERO,
                Some(length) => length * 2 / 3 + LOSS_REPORT,
                None => continue,
            };
            if now >= since + may_last {
                broken.push(format!(
                    "client {} relies on lock {}, which is gone",
                    held.client, held.name
                ));
            }
        }
        drop(state);
        for what in broken {
            self.break_promise("a valid lease has its record", what);
        }
    }

    /// Checks that at most one lease of a name is valid, apart from leases whose record a server may have lost.
    fn check_exclusion(&self) {
        if self.is_lossy {
            return;
        }
        let mut holders: BTreeMap<usize, usize> = BTreeMap::new();
        let mut broken = Vec::new();
        {
            let state = self.lock();
            let counts = |held: &&Held| held.lease.is_valid() && !held.may_be_forgotten(&state.lost_data);
            for held in state.held.values().filter(counts) {
                if let Some(other) = holders.insert(held.name, held.client) {
                    broken.push(format!(
                        "lock {} is held by clients {other} and {}",
                        held.name, held.client
                    ));
                }
            }
        }
        for what in broken {
            self.break_promise("at most one holder", what);
        }
    }

    /// Checks that every loss is reported, and that no auto-renewed lease is lost while renewals can reach a server.
    fn check_losses(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        let State { held, losses, lost, .. } = &mut *state;
        let mut broken = Vec::new();
        for held in held.values_mut().filter(|held| !held.is_reported) {
            if let Some(reason) = held.lease.lost_reason() {
                held.is_reported = true;
                *lost += u64::from(held.renewed.is_some());
                self.trace.note(format_args!(
                    "client {} gets the report that lock {} is lost: {reason:?}",
                    held.client, held.name
                ));
                broken.extend(not_excused(held, reason, losses, now));
            } else if !held.lease.is_valid() {
                let since = *held.invalid_since.get_or_insert(now);
                if now > since + LOSS_REPORT {
                    let what = format!("client {} got no report that lock {} is lost", held.client, held.name);
                    broken.push(("a loss is reported", what));
                }
            }
        }
        drop(state);
        for (invariant, what) in broken {
            self.break_promise(invariant, what);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Returns whether a server may have lost the record.
    fn may_be_forgotten(&self, lost_data: &BTreeMap<usize, Instant>) -> bool {
        lost_data.get(&self.name).is_some_and(|lost| self.since <= *lost)
    }
}

/// Returns the broken promise, if a lease was lost without an excuse.
fn not_excused(held: &Held, reason: LostReason, losses: &Excuses, now: Instant) -> Option<(&'static str, String)> {
    // Only faults since the last successful renewal can end a lease.
    let renewed = held.renewed?;
    let is_excused = losses.any(held.name, now, renewed);
    let what = format!(
        "client {} lost lock {}, which is renewed ({reason:?}), though renewals had a way",
        held.client, held.name
    );
    (!is_excused).then_some(("a renewed lease is kept", what))
}
