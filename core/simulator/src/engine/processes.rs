//! The processes of a client, one after another: each connects, works, and is closed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use steadlock::simulation::connect;
use steadlock::{Client, ErrorKind};
use tokio::time::{Instant, sleep};

use super::ledger::Ledger;
use super::network::Network;
use super::plan::{Naming, Plan};
use super::task::Task;
use super::trace::Trace;
use super::world::ClientWorld;
use crate::random::Random;

/// The pause between two attempts to connect.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Processes {
    pub(super) client: usize,
    pub(super) world: Arc<ClientWorld>,
    pub(super) plan: Plan,
    pub(super) random: Random,
    pub(super) ledger: Arc<Ledger>,
    pub(super) trace: Arc<Trace>,
    /// The last process of each client, which is still open.
    pub(super) open: Arc<Mutex<Vec<Client>>>,
}

impl Processes {
    /// Runs the processes until `until`.
    pub(super) async fn run(mut self, until: Instant) {
        let mut left = self.plan.processes;
        while let Some(handle) = self.connect().await {
            left -= 1;
            let end = match left {
                0 => until,
                _ => self.draw_before(until),
            };
            self.work(&handle, end).await;
            if left == 0 {
                self.open.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
                return;
            }
            handle.close().await;
            self.trace.note(format_args!("client {} is closed", self.client));
            sleep(self.draw_before(until) - Instant::now()).await;
        }
    }

    /// Draws a time in the first half of the remaining time.
    fn draw_before(&mut self, until: Instant) -> Instant {
        let left = until.saturating_duration_since(Instant::now()) / 2;
        let left = u64::try_from(left.as_millis()).unwrap_or(0);
        Instant::now() + Duration::from_millis(self.random.between(0, left))
    }

    async fn work(&mut self, handle: &Client, until: Instant) {
        let mut tasks = Vec::new();
        for number in 0..self.plan.tasks {
            let task = Task {
                client: self.client,
                number,
                handle: handle.clone(),
                plan: self.plan.clone(),
                random: self.random.fork(),
                ledger: Arc::clone(&self.ledger),
                trace: Arc::clone(&self.trace),
            };
            tasks.push(tokio::spawn(task.run(until)));
        }
        for task in tasks {
            if let Err(error) = task.await {
                self.ledger.break_promise("every call ends", error.to_string());
            }
        }
    }

    /// Connects, and tries again while a fault excuses the failure. `None` after a failure without an excuse.
    async fn connect(&self) -> Option<Client> {
        loop {
            let began = Instant::now();
            let builder = Client::builder()
                .lease(self.plan.lease)
                .command_timeout(self.plan.command_timeout);
            let builder = match self.plan.servers {
                _ if self.plan.shards > 0 => builder.url(Network::cluster_url(self.plan.shards)),
                _ if self.plan.sentinels > 0 => builder.url(Network::sentinel_url(self.plan.listed)),
                _ if self.plan.naming != Naming::Plain => builder.url(Network::named_url()),
                1 => builder.url(Network::url(0)),
                servers => builder.primaries((0..servers).map(Network::url)),
            };
            let error = match connect(builder, Arc::clone(&self.world) as _).await {
                Ok(client) => return Some(client),
                Err(error) => error,
            };
            self.trace
                .note(format_args!("client {} is not connected: {error}", self.client));
            let is_excused = (0..self.plan.names.len()).any(|name| self.ledger.has_excuse(name, began));
            // During a failover a name may lead to replicas only.
            let is_expected = match error.kind() {
                ErrorKind::Unavailable => true,
                ErrorKind::Misconfigured => self.plan.naming != Naming::Plain,
                _ => false,
            };
            if !is_expected || !is_excused {
                self.ledger.break_promise("clients connect", error.to_string());
                return None;
            }
            sleep(RETRY_PAUSE).await;
        }
    }
}
