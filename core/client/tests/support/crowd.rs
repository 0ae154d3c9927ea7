//! Many locks with holders and waiters, for tests in which servers fail.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use steadlock::{Client, Lease, Lock, ReleaseOutcome};
use steadlock_protocol::Reply;
use tokio::task::JoinHandle;

use super::rig::Node;
use super::{eventually, is_timed};

const SOON: Duration = Duration::from_secs(10);

/// Returns the longest time until a client works with a promoted node. On a machine with other load it is [`SOON`].
pub fn failover_limit() -> Duration {
    if is_timed() { Duration::from_secs(2) } else { SOON }
}

/// Returns the number of failovers in a row: `STEADLOCK_FAILOVERS`, or 1.
pub fn failover_count() -> usize {
    std::env::var("STEADLOCK_FAILOVERS").map_or(1, |times| times.parse().unwrap())
}

/// The times that clients needed in each failover until they used the promoted node.
pub struct Times {
    what: &'static str,
    all: Vec<Duration>,
}

impl Times {
    pub const fn new(what: &'static str) -> Self {
        Self { what, all: Vec::new() }
    }

    pub const fn count(&self) -> usize {
        self.all.len()
    }

    pub fn add(&mut self, time: Duration) {
        self.all.push(time);
    }

    /// Prints the median and the worst time, and checks that the worst is below [`failover_limit`].
    pub fn check(mut self) {
        self.all.sort_unstable();
        let (median, worst) = (self.all[self.all.len() / 2], self.all[self.all.len() - 1]);
        println!(
            "{}, {} times: median {median:?}, worst {worst:?}",
            self.what,
            self.all.len()
        );
        assert!(worst < failover_limit(), "{}: {:?}", self.what, self.all);
    }
}

/// The numbers of open files and threads of this process. Both are 0 where the system has no `/proc`.
#[derive(Debug, PartialEq, Eq)]
pub struct ResourceUse {
    files: usize,
    threads: usize,
}

impl ResourceUse {
    pub fn now() -> Self {
        let count = |of: &str| std::fs::read_dir(format!("/proc/self/{of}")).map_or(0, Iterator::count);
        Self {
            files: count("fd"),
            threads: count("task"),
        }
    }

    /// Waits until the process has no more files and threads than when `self` was measured.
    ///
    /// Does nothing unless failovers are repeated: other tests in this process would change the numbers.
    pub async fn wait_until_not_above(&self) {
        if failover_count() == 1 {
            return;
        }
        let is_not_above = || {
            let now = Self::now();
            now.files <= self.files && now.threads <= self.threads
        };
        let start = Instant::now();
        while !is_not_above() && start.elapsed() < SOON {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(is_not_above(), "{:?} are used, {self:?} before", Self::now());
    }
}

/// Returns one lock of every kind. All of their names have the same slot.
pub fn kinds(client: &Client, name: &str) -> Vec<(&'static str, Lock)> {
    let of = |kind: &str| format!("{{{name}}}-{kind}");
    vec![
        ("lock", client.lock(of("lock"))),
        ("mutex", client.mutex(of("mutex"))),
        ("fair_lock", client.fair_lock(of("fair"))),
        ("read_lock", client.read_write_lock(of("read")).read),
        ("write_lock", client.read_write_lock(of("write")).write),
        ("semaphore", client.semaphore(of("semaphore"), 1).permits(1)),
    ]
}

/// Waits for a lock in a background task.
pub fn spawn_waiter(lock: Lock, limit: Duration) -> JoinHandle<Lease> {
    tokio::spawn(async move { lock.wait(limit).acquire().await.unwrap() })
}

/// Waits until a client has subscribed to the releases of a lock at a node.
pub async fn wait_until_subscribed(node: &Node, name: &str) {
    let pattern = format!("*{name}*");
    eventually("a waiter has subscribed", SOON, || {
        ["CHANNELS", "SHARDCHANNELS"].iter().any(|of| {
            let listeners = node.try_run(&["PUBSUB", of, &pattern]);
            matches!(listeners, Ok(Reply::Array(channels)) if !channels.is_empty())
        })
    })
    .await;
}

/// Connects a client that polls so rarely that it learns of a release in time only by a notification.
pub async fn connect_with_rare_polls(url: &str) -> Client {
    let interval = (Duration::from_secs(20), Duration::from_secs(25));
    Client::builder()
        .url(url)
        .retry_interval(interval.0, interval.1)
        .connect()
        .await
        .unwrap()
}

/// Lets `other_lock` wait until `lease` is released, and checks that a notification hands the lock over. The client of
/// `other_lock` must be one of [`connect_with_rare_polls`]; it subscribes at `node`.
pub async fn check_hand_over(kind: &str, lease: Lease, other_lock: Lock, node: &Node, name: &str) {
    let waiter = spawn_waiter(other_lock, SOON);
    wait_until_subscribed(node, name).await;
    let released = Instant::now();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
    let granted = waiter.await.unwrap();
    let limit = if is_timed() { Duration::from_millis(100) } else { SOON };
    let took = released.elapsed();
    assert!(took < limit, "{kind}: {took:?}");
    assert_eq!(granted.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
}

/// Two clients that hold many locks, and a third one that waits for some of them.
pub struct Crowd {
    pub clients: Vec<Client>,
    held: Vec<Lease>,
    granted_later: Vec<Lease>,
    waiters: Vec<JoinHandle<Lease>>,
}

impl Crowd {
    pub const HELD: usize = 200;
    pub const WAITERS: usize = 50;

    /// Acquires the locks and starts the waiters. `nodes` are the nodes that have the locks. A waiter waits for at most
    /// twice the lease.
    pub async fn start(url: &str, term: Duration, nodes: &[Node]) -> Self {
        Self::start_with_limit(url, term, 2 * term, nodes).await
    }

    /// Does the same as `start` with waiters that wait for at most `limit`.
    pub async fn start_with_limit(url: &str, term: Duration, limit: Duration, nodes: &[Node]) -> Self {
        let client = async || {
            let options = Client::builder().url(url).lease(term);
            options.connect().await.unwrap()
        };
        let clients = vec![client().await, client().await, client().await];
        let all = |prefix: &'static str, count: usize| {
            let locks = (0..count).map(|number| clients[number % 2].lock(format!("{prefix}-{number}")));
            join_all(locks.map(|lock| async move { lock.acquire().await.unwrap() }))
        };
        let (held, granted_later) = (all("held", Self::HELD).await, all("awaited", Self::WAITERS).await);
        let waiters: Vec<_> = granted_later
            .iter()
            .map(|lease| spawn_waiter(clients[2].lock(lease.name()), limit))
            .collect();
        for node in nodes {
            wait_until_subscribed(node, "awaited").await;
        }
        Self {
            clients,
            held,
            granted_later,
            waiters,
        }
    }

    /// Checks that all leases are still valid, and that each waiter acquires its lock.
    pub async fn check(self) {
        let failures = self.failures().await;
        assert!(failures.is_empty(), "{failures:#?}");
    }

    /// Releases all locks and closes the clients. Returns a line for each lease that was lost or could not be released.
    pub async fn failures(self) -> Vec<String> {
        let lost = self.held.iter().filter(|lease| !lease.is_valid());
        let mut failures: Vec<String> = lost
            .map(|lease| format!("{}: {:?}", lease.name(), lease.lost_reason()))
            .collect();
        let mut release = async |what: &str, lease: Lease| {
            let name = lease.name().to_owned();
            match lease.release().await {
                Ok(ReleaseOutcome::Released) => {}
                other => failures.push(format!("{what} {name}: {other:?}")),
            }
        };
        for lease in self.granted_later {
            release("awaited", lease).await;
        }
        for waiter in self.waiters {
            release("granted", waiter.await.unwrap()).await;
        }
        for lease in self.held {
            release("held", lease).await;
        }
        for client in self.clients {
            client.close().await;
        }
        failures
    }
}

/// Waits until the only keys of a primary are counters of fencing tokens and records of clients.
pub async fn wait_until_only_tokens(node: &Node) {
    let others = || {
        let Ok(Reply::Array(keys)) = node.try_run(&["KEYS", "*"]) else {
            return vec!["no answer".into()];
        };
        let text = |key| match key {
            Reply::Bytes(key) => String::from_utf8_lossy(&key).into_owned(),
            other => format!("{other:?}"),
        };
        let keys: Vec<String> = keys.into_iter().map(text).collect();
        let is_kept = |key: &String| key.ends_with(":token") || key.ends_with(":client");
        keys.into_iter().filter(|key| !is_kept(key)).collect()
    };
    let start = Instant::now();
    while !others().is_empty() && start.elapsed() < SOON {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(others().is_empty(), "left: {:?}", others());
}

/// Waits until a replica has all data of its primary.
pub async fn wait_until_replicated(primary: &Node, replica: &Node) {
    eventually("the replica has everything", SOON, || {
        primary.offset() == replica.offset()
    })
    .await;
}
