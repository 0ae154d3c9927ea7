//! The lock that `steadlock run` holds while its command runs: a lock of some kind, or a run of a job.

use std::time::Duration;

use steadlock::{Client, Error, Lease, Lock, OnFailure, ReleaseOutcome, Run, Started};

use crate::server::parse_duration;

/// The kind of the lock, and the terms of a job.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "What to hold")]
pub(crate) struct Wanted {
    /// Hold a fair lock: it is acquired in order of arrival.
    #[arg(long, group = "kind")]
    fair: bool,
    /// Hold a mutex, which other lock libraries share.
    #[arg(long, group = "kind")]
    mutex: bool,
    /// Hold the side of a read-write lock that many can hold.
    #[arg(long, group = "kind")]
    read: bool,
    /// Hold the side of a read-write lock that one holds alone.
    #[arg(long, group = "kind")]
    write: bool,
    /// Hold this many permits of a semaphore.
    #[arg(long, value_name = "COUNT", group = "kind", requires = "limit")]
    permits: Option<u32>,
    /// The number of permits that the semaphore has.
    #[arg(long, value_name = "COUNT", requires = "permits")]
    limit: Option<u32>,
    /// Run the command as a job, at most once at a time, and never wait: if another run goes on, or the job is done, the
    /// command is skipped. The options below imply this one.
    #[arg(long, group = "kind", conflicts_with = "wait")]
    once: bool,
    /// For how long after its start the job counts as done, such as 50s, 10m or 1h; at most 24h [default: as long as it
    /// runs].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = NOT_ONCE)]
    at_least: Option<Duration>,
    /// A key for this run, such as the planned time: a run of this key that succeeded is not repeated.
    #[arg(long, value_name = "KEY", conflicts_with_all = NOT_ONCE)]
    key: Option<String>,
    /// How long the server remembers that the key is done; at most 30d [default: 24h].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "key")]
    keep: Option<Duration>,
    /// Let a failed run count as done. Without this option, the job may run again at once.
    #[arg(long, conflicts_with_all = NOT_ONCE)]
    keep_failures: bool,
    /// The exit status when the command is skipped [default: 0].
    #[arg(long, value_name = "STATUS", conflicts_with_all = NOT_ONCE)]
    skipped_status: Option<u8>,
}

/// The options that a job cannot have.
const NOT_ONCE: [&str; 6] = ["fair", "mutex", "read", "write", "permits", "wait"];

/// The lease that was granted.
pub(crate) enum Granted {
    Lease(Lease),
    Run(Run),
    /// Nothing, for this reason: the command is skipped.
    Skipped(String),
}

impl Wanted {
    /// Returns the key of the run, if it has one.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    fn is_once(&self) -> bool {
        self.once
            || self.at_least.is_some()
            || self.key.is_some()
            || self.keep_failures
            || self.skipped_status.is_some()
    }

    /// Returns the exit status when the command is skipped.
    pub(crate) fn skipped_status(&self) -> u8 {
        self.skipped_status.unwrap_or(0)
    }

    pub(crate) async fn acquire(&self, client: &Client, name: &str, wait: Option<Duration>) -> Result<Granted, Error> {
        if self.is_once() {
            return self.start(client, name).await;
        }
        let lock = self.lock(client, name);
        let lock = wait.into_iter().fold(lock, Lock::wait);
        lock.acquire().await.map(Granted::Lease)
    }

    async fn start(&self, client: &Client, name: &str) -> Result<Granted, Error> {
        let mut job = client.once(name);
        if let Some(at_least) = self.at_least {
            job = job.at_least(at_least);
        }
        if let Some(key) = &self.key {
            job = job.key(key);
        }
        if let Some(keep) = self.keep {
            job = job.keep(keep);
        }
        if self.keep_failures {
            job = job.on_failure(OnFailure::Keep);
        }
        Ok(match job.start().await? {
            Started::Run(run) => Granted::Run(run),
            Started::Skipped(skipped) => Granted::Skipped(skipped.to_string()),
        })
    }

    fn lock(&self, client: &Client, name: &str) -> Lock {
        match (self.permits, self.limit) {
            (Some(permits), Some(limit)) => client.semaphore(name, limit).permits(permits),
            _ if self.fair => client.fair_lock(name),
            _ if self.mutex => client.mutex(name),
            _ if self.read => client.read_write_lock(name).read,
            _ if self.write => client.read_write_lock(name).write,
            _ => client.lock(name),
        }
    }
}

/// The lease that is held while the command runs.
pub(crate) enum Held {
    Lease(Lease),
    Run(Run),
}

impl Held {
    pub(crate) fn lease(&self) -> &Lease {
        match self {
            Self::Lease(lease) => lease,
            Self::Run(run) => run,
        }
    }

    /// Releases what is held. A run ends well only if the command succeeded.
    pub(crate) async fn release(self, has_succeeded: bool) -> Result<ReleaseOutcome, Error> {
        match self {
            Self::Lease(lease) => lease.release().await,
            Self::Run(run) if has_succeeded => run.succeed().await,
            Self::Run(run) => run.fail().await,
        }
    }
}
