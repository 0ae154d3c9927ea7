//! A caller: it acquires locks in many ways, holds them for a while, and releases or drops its leases.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use steadlock::{Client, ErrorKind, Lease, Lock, ReleaseOutcome};
use tokio::time::{Instant, sleep, timeout};

use super::ledger::Ledger;
use super::plan::{Kind, Plan};
use super::trace::Trace;
use crate::random::Random;

/// The allowed delay of answers.
const SLACK: Duration = Duration::from_millis(150);
/// The time within which a client connects to a node that it needs for the first time.
const CONNECTED: Duration = Duration::from_secs(1);
/// The longest time for one call and its answer, with a new connection and a script that the server does not know.
const PROMPT: Duration = Duration::from_millis(400);
/// The time after which a wait without a limit must have ended: by then all other waits and holds have ended.
const UNBOUNDED: Duration = Duration::from_secs(150);

pub(super) struct Task {
    pub(super) client: usize,
    pub(super) number: usize,
    pub(super) handle: Client,
    pub(super) plan: Plan,
    pub(super) random: Random,
    pub(super) ledger: Arc<Ledger>,
    pub(super) trace: Arc<Trace>,
}

/// How a lock is requested and held.
struct Request {
    name: usize,
    lock: Lock,
    wait: Option<Duration>,
    renewed: Option<Duration>,
    /// The time after which the caller gives up.
    cancel_after: Option<Duration>,
    holds: Duration,
    extends_after: Option<Duration>,
    is_dropped: bool,
    /// For how long after its start a run of a job keeps others out.
    at_least: Option<Duration>,
}

/// A lock that was granted.
struct Granted {
    id: u64,
    lease: Arc<Lease>,
    /// When the caller asked for the lock.
    asked: Instant,
}

impl Task {
    /// Works until `until`.
    pub(super) async fn run(mut self, until: Instant) {
        while Instant::now() < until {
            let pause = self.random.between(0, 600);
            sleep(Duration::from_millis(pause)).await;
            self.ledger.busy(self.client);
            self.acquire_and_release().await;
            self.ledger.idle(self.client);
        }
        self.note("ends");
    }

    /// Acquires one lock, or several at once as separate requests. Then holds and releases what was granted.
    async fn acquire_and_release(&mut self) {
        let count = self.plan.names.len();
        let first = self.random.index(count);
        let mut names = vec![first];
        if count > 1 && self.random.chance(250) {
            names.push((first + 1 + self.random.index(count - 1)) % count);
        }
        let is_alone = names.len() == 1;
        let request: Vec<Request> = names
            .into_iter()
            .map(|name| self.draw_request(name, is_alone))
            .collect();
        let acquired = join_all(request.iter().map(|request| self.acquire_noted(request))).await;
        let held = request
            .iter()
            .zip(acquired)
            .filter_map(|(request, acquired)| Some((request, acquired?)));
        join_all(held.map(|(request, granted)| self.hold_and_release(request, granted))).await;
    }

    async fn acquire_noted(&self, request: &Request) -> Option<Granted> {
        let asked = Instant::now();
        // A request for a run of a job does not wait.
        let waits = request.at_least.is_none();
        if waits {
            self.ledger.waits(request.name);
        }
        let lease = self.acquire(request).await;
        if waits {
            self.ledger.wait_ended(request.name);
        }
        let lease = Arc::new(lease?);
        let id = self.ledger.granted(self.client, request.name, &lease, request.renewed);
        Some(Granted { id, lease, asked })
    }

    /// Holds the lock for a while, and releases it or drops its lease.
    async fn hold_and_release(&self, request: &Request, granted: Granted) {
        let (Granted { id, lease, asked }, name) = (granted, request.name);
        self.hold(request, &lease).await;
        self.ledger.released(id);
        let Some(lease) = Arc::into_inner(lease) else { return };
        if request.is_dropped {
            self.note("drops its lease");
            return;
        }
        let limit = self.plan.command_timeout + SLACK;
        self.note("releases");
        let began = Instant::now();
        match timeout(limit, lease.release()).await {
            Ok(Ok(outcome)) => {
                self.note(&format!("has released: {outcome:?}"));
                self.needs_excuse_if_late(name, began, "release");
                if let Some(at_least) = request.at_least.filter(|_| outcome == ReleaseOutcome::Released) {
                    self.ledger.is_done(name, asked + at_least);
                }
                if outcome == ReleaseOutcome::Unknown {
                    self.needs_excuse(name, began, "a release is unknown");
                }
            }
            Ok(Err(error)) => self.note(&format!("has not released: {error}")),
            Err(_) => self.hangs("release", limit),
        }
    }

    /// Draws a request. If a task requests several locks at once, each request has a wait limit, because another task
    /// may hold one of these locks and wait for another of them.
    fn draw_request(&mut self, name: usize, is_alone: bool) -> Request {
        let full = Plan::name(name);
        let lock = match self.plan.names[name] {
            Kind::Lock => self.handle.lock(full),
            Kind::Mutex => self.handle.mutex(full),
            Kind::Fair => self.handle.fair_lock(full),
            Kind::Once => return self.draw_run(name),
        };
        let random = &mut self.random;
        let wait = match random.index(4) {
            0 if is_alone => None,
            1 => Some(Duration::ZERO),
            _ => Some(Duration::from_millis(random.between(20, 12_000))),
        };
        let length = Duration::from_millis(random.between(3_000, 9_000));
        let is_fixed = random.chance(if self.plan.is_quiet { 600 } else { 250 });
        let (lock, renewed) = match random.index(3) {
            _ if is_fixed => (lock.lease(2 * length), None),
            0 => (lock.lease(length).renewed(), Some(length)),
            _ => (lock, Some(self.plan.lease)),
        };
        let lock = wait.map_or_else(|| lock.clone(), |wait| lock.clone().wait(wait));
        self.draw_hold(name, lock, wait, renewed)
    }

    /// Draws a request for a run of a job. The lease of a run is always renewed.
    fn draw_run(&mut self, name: usize) -> Request {
        let random = &mut self.random;
        let at_least = Duration::from_millis(random.pick(&[0, 500, 5_000]));
        let mut job = self.handle.once(Plan::name(name)).at_least(at_least);
        if random.chance(300) {
            job = job
                .key(random.pick(&["a", "a:1"]))
                .keep(Duration::from_secs(random.between(1, 10)));
        }
        let length = Duration::from_millis(random.between(3_000, 9_000));
        let (job, renewed) = match random.chance(300) {
            true => (job.lease(length), length),
            false => (job, self.plan.lease),
        };
        Request {
            at_least: Some(at_least),
            ..self.draw_hold(name, job.as_lock(), Some(Duration::ZERO), Some(renewed))
        }
    }

    /// Draws how long a lock is held, and how the hold ends.
    fn draw_hold(&mut self, name: usize, lock: Lock, wait: Option<Duration>, renewed: Option<Duration>) -> Request {
        let random = &mut self.random;
        let cancel_after = random
            .chance(150)
            .then(|| Duration::from_millis(random.between(0, 3_000)));
        let (shortest, longest) = match self.plan.is_quiet {
            true => (5_000, 20_000),
            false => (1, random.pick(&[50, 500, 4_000, 15_000])),
        };
        Request {
            name,
            holds: Duration::from_millis(random.between(shortest, longest)),
            extends_after: random
                .chance(200)
                .then(|| Duration::from_millis(random.between(0, 1_000))),
            is_dropped: random.chance(100),
            lock,
            wait,
            renewed,
            cancel_after,
            at_least: None,
        }
    }

    async fn acquire(&self, request: &Request) -> Option<Lease> {
        let name = request.name;
        let began = Instant::now();
        let limit = match request.wait {
            None => UNBOUNDED,
            Some(Duration::ZERO) => self.plan.command_timeout + SLACK,
            Some(wait) => wait + SLACK,
        };
        self.note(&format!(
            "asks for lock {name}, waits {:?}, renewed {:?}, goes away after {:?}",
            request.wait, request.renewed, request.cancel_after
        ));
        let answer = timeout(request.cancel_after.unwrap_or(limit).min(limit), request.lock.acquire()).await;
        if request.wait == Some(Duration::ZERO) {
            self.needs_excuse_if_late(name, began, "single attempt");
        }
        match answer {
            Ok(Ok(lease)) => return Some(lease),
            Ok(Err(error)) => {
                self.note(&format!("got no lock {name}: {error}"));
                let is_expected = match request.at_least {
                    Some(_) => matches!(error.kind(), ErrorKind::Skipped | ErrorKind::Unavailable),
                    None => matches!(error.kind(), ErrorKind::LockTimeout | ErrorKind::Unavailable),
                };
                if !is_expected {
                    self.ledger
                        .break_promise("errors have a reason", format!("lock {name}: {error}"));
                }
                // While slots only move, a client must follow each redirection, so a redirection is no reason for a
                // failure.
                let cause = error.cause().unwrap_or_default();
                let is_sent_on = ["MOVED ", "ASK "].iter().any(|code| cause.contains(code));
                if is_sent_on && self.plan.has_only_moves {
                    self.ledger
                        .break_promise("errors have a reason", format!("lock {name}: {error}"));
                }
                let has_time = request.wait.is_none_or(|wait| wait.is_zero() || wait >= CONNECTED);
                if error.kind() == ErrorKind::Unavailable && has_time {
                    self.needs_excuse(name, began, &error.to_string());
                }
            }
            Err(_) if request.cancel_after.is_some_and(|cancel_after| cancel_after < limit) => self.note("went away"),
            Err(_) => self.hangs("acquire", limit),
        }
        None
    }

    /// Holds the lock for a while, and stops early if the lease is lost.
    async fn hold(&self, request: &Request, lease: &Lease) {
        let name = request.name;
        let until = Instant::now() + request.holds;
        if let Some(pause) = request.extends_after {
            sleep(pause).await;
            let limit = self.plan.command_timeout + SLACK;
            let began = Instant::now();
            match timeout(limit, lease.extend(None)).await {
                Ok(Ok(())) => self.note("has extended"),
                Ok(Err(error)) => {
                    self.note(&format!("has not extended: {error}"));
                    if error.kind() == ErrorKind::Unavailable {
                        self.needs_excuse(name, began, &error.to_string());
                    }
                }
                Err(_) => self.hangs("extend", limit),
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        if let Ok(reason) = timeout(left, lease.lost()).await {
            self.note(&format!("lost its lease: {reason:?}"));
        }
    }

    /// Checks that a failure has an excuse: a server without a fault must be available.
    fn needs_excuse(&self, name: usize, since: Instant, what: &str) {
        if !self.ledger.has_excuse(name, since) {
            let what = format!("client {}, lock {name}: {what}", self.client);
            self.ledger.break_promise("errors have a reason", what);
        }
    }

    /// Checks that a delay has an excuse: faults of other servers must not delay a call.
    fn needs_excuse_if_late(&self, name: usize, since: Instant, what: &str) {
        if since.elapsed() > PROMPT && !self.ledger.has_excuse(name, since) {
            let what = format!(
                "client {}, lock {name}: a {what} took {:?}",
                self.client,
                since.elapsed()
            );
            self.ledger.break_promise("a shard delays its own calls only", what);
        }
    }

    fn hangs(&self, what: &str, limit: Duration) {
        let what = format!(
            "{what} of client {}, task {}, did not end within {limit:?}",
            self.client, self.number
        );
        self.ledger.break_promise("every call ends", what);
    }

    fn note(&self, what: &str) {
        self.trace
            .note(format_args!("client {}, task {} {what}", self.client, self.number));
    }
}
