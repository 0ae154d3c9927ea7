//! Who holds what, as the callers see it, and what is promised of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadlock::{Lease, LostReason};
use tokio::time::Instant;

use super::excuses::Excuses;
use super::trace::Trace;
use crate::checks::Broken;

/// A lease that is valid no more is told to be lost so soon.
const TOLD: Duration = Duration::from_millis(1_500);
/// A server that could not be asked can be, so soon: connections are opened again, and what was held up is tried.
const RECOVERY: Duration = Duration::from_secs(8);

/// The longest time from the end of a hold until a waiter is granted the lock.
const WOKEN: Duration = Duration::from_millis(500);

pub(super) struct Ledger {
    trace: Arc<Trace>,
    /// Any server may lose any data: a second holder is let in.
    is_lossy: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: BTreeMap<u64, Held>,
    next: u64,
    tokens: BTreeMap<usize, u64>,
    busy: BTreeMap<usize, Busy>,
    /// How many callers wait for a lock.
    waiting: BTreeMap<usize, usize>,
    /// Since when nobody has a lock that somebody waits for.
    free_since: BTreeMap<usize, Instant>,
    /// When leases may be lost, since renewals had no way.
    losses: Excuses,
    /// When callers may be told that their server is not available.
    errors: Excuses,
    /// When a server lost what it had last of a lock.
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
    /// How long it is, if it is renewed.
    renewed: Option<Duration>,
    invalid_since: Option<Instant>,
    /// Since when no server has it on record, as far as was seen.
    unbacked_since: Option<Instant>,
    is_told: bool,
}

/// A client with something under way or held.
struct Busy {
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

    /// A promise is broken: the first one counts.
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

    /// How many leases were lost that are renewed.
    pub(super) fn lost(&self) -> u64 {
        self.lock().lost
    }

    /// A caller has a lease.
    pub(super) fn granted(&self, client: usize, name: usize, lease: &Arc<Lease>, renewed: Option<Duration>) -> u64 {
        let token = lease.token();
        self.trace
            .note(format_args!("client {client} holds lock {name}, token {token:?}"));
        let mut state = self.lock();
        state.grants += 1;
        let last = token.and_then(|token| state.tokens.insert(name, token));
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
            is_told: false,
        };
        state.held.insert(id, held);
        drop(state);
        if let (Some(last), Some(token)) = (last, token)
            && token <= last
        {
            self.break_promise("tokens rise", format!("lock {name} gave {token} after {last}"));
        }
        self.check_exclusion();
        id
    }

    /// A caller is about to give one back, or has dropped it.
    pub(super) fn given_back(&self, id: u64) {
        self.check();
        self.lock().held.remove(&id);
    }

    /// A client begins, or ends, to do or hold something.
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

    /// Since when a client has had something, without a break.
    pub(super) fn busy_since(&self, client: usize) -> Option<Instant> {
        self.lock().busy.get(&client).map(|busy| busy.since)
    }

    /// A caller begins to wait for a lock.
    pub(super) fn waits(&self, name: usize) {
        *self.lock().waiting.entry(name).or_default() += 1;
    }

    /// It does no more.
    pub(super) fn waits_no_more(&self, name: usize) {
        if let Some(count) = self.lock().waiting.get_mut(&name) {
            *count -= 1;
        }
    }

    /// A lock that is free is soon granted to a waiter.
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

    /// From now on renewals of these locks, or of all, may have no way.
    pub(super) fn excuse_losses(&self, names: Option<Vec<usize>>) -> usize {
        self.lock().losses.begin(names)
    }

    /// They have one again.
    pub(super) fn excuse_losses_no_more(&self, number: usize) {
        self.lock().losses.end(number);
    }

    /// From now on the server of these locks, or of all, may be not available.
    pub(super) fn excuse_errors(&self, names: Option<Vec<usize>>) -> usize {
        self.lock().errors.begin(names)
    }

    /// It is again.
    pub(super) fn excuse_errors_no_more(&self, number: usize) {
        self.lock().errors.end(number);
    }

    /// Whether a caller may be told that its server is not available, who has waited for it since then.
    pub(super) fn has_excuse(&self, name: usize, since: Instant) -> bool {
        self.lock().errors.any(name, since, RECOVERY)
    }

    /// A replica took over that had not heard the last of these locks.
    pub(super) fn lose_data(&self, names: &[usize]) {
        let lost = names.iter().map(|name| (*name, Instant::now()));
        self.lock().lost_data.extend(lost);
    }

    /// Looks at all leases.
    pub(super) fn check(&self) {
        self.check_exclusion();
        self.check_losses();
    }

    /// What is valid is on record; or, where servers lose data, its holder is told by the next renewal.
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
                Some(length) => length * 2 / 3 + TOLD,
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

    /// At most one lease of a name is valid at a moment, beside those that a server forgot.
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

    /// What is lost is told, and nothing is lost while renewals have a way.
    fn check_losses(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        let State { held, losses, lost, .. } = &mut *state;
        let mut broken = Vec::new();
        for held in held.values_mut().filter(|held| !held.is_told) {
            if let Some(reason) = held.lease.lost_reason() {
                held.is_told = true;
                *lost += u64::from(held.renewed.is_some());
                self.trace.note(format_args!(
                    "client {} is told that lock {} is lost: {reason:?}",
                    held.client, held.name
                ));
                broken.extend(not_excused(held, reason, losses, now));
            } else if !held.lease.is_valid() {
                let since = *held.invalid_since.get_or_insert(now);
                if now > since + TOLD {
                    let what = format!("client {} was not told that lock {} is lost", held.client, held.name);
                    broken.push(("a loss is told", what));
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
    /// Whether a server may have lost it.
    fn may_be_forgotten(&self, lost_data: &BTreeMap<usize, Instant>) -> bool {
        lost_data.get(&self.name).is_some_and(|lost| self.since <= *lost)
    }
}

/// Why a lease must not be lost now.
fn not_excused(held: &Held, reason: LostReason, losses: &Excuses, now: Instant) -> Option<(&'static str, String)> {
    // A lease ends by what happened since it was renewed last.
    let renewed = held.renewed?;
    let is_excused = losses.any(held.name, now, renewed);
    let what = format!(
        "client {} lost lock {}, which is renewed ({reason:?}), though renewals had a way",
        held.client, held.name
    );
    (!is_excused).then_some(("a renewed lease is kept", what))
}
