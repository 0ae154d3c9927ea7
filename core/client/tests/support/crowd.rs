//! Many locks, their holders and their waiters, while servers fail.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use steadlock::{Client, Lease, Lock, ReleaseOutcome};
use steadlock_protocol::Reply;
use tokio::task::JoinHandle;

use super::rig::Node;
use super::{eventually, is_timed};

const SOON: Duration = Duration::from_secs(10);

/// By when a client works at a node that was promoted; on a busy machine, [`SOON`].
pub fn at_most() -> Duration {
    if is_timed() { Duration::from_secs(2) } else { SOON }
}

/// How often in a row a server fails: `STEADLOCK_FAILOVERS`.
pub fn times() -> usize {
    std::env::var("STEADLOCK_FAILOVERS").map_or(1, |times| times.parse().unwrap())
}

/// How long it took each time until clients were at a node that was promoted.
pub struct Times {
    what: &'static str,
    all: Vec<Duration>,
}

impl Times {
    pub const fn of(what: &'static str) -> Self {
        Self { what, all: Vec::new() }
    }

    pub const fn count(&self) -> usize {
        self.all.len()
    }

    pub fn note(&mut self, time: Duration) {
        self.all.push(time);
    }

    /// Says the median and the worst, which is within the bound.
    pub fn check(mut self) {
        self.all.sort_unstable();
        let (median, worst) = (self.all[self.all.len() / 2], self.all[self.all.len() - 1]);
        println!(
            "{}, {} times: median {median:?}, worst {worst:?}",
            self.what,
            self.all.len()
        );
        assert!(worst < at_most(), "{}: {:?}", self.what, self.all);
    }
}

/// Files and threads that this process has, where the system says so.
#[derive(Debug, PartialEq, Eq)]
pub struct Used {
    files: usize,
    threads: usize,
}

impl Used {
    pub fn now() -> Self {
        let count = |of: &str| std::fs::read_dir(format!("/proc/self/{of}")).map_or(0, Iterator::count);
        Self {
            files: count("fd"),
            threads: count("task"),
        }
    }

    /// Once all is closed there is no more than before. Only where no other test runs beside this one.
    pub async fn is_all(&self) {
        if times() == 1 {
            return;
        }
        let is_all = || {
            let now = Self::now();
            now.files <= self.files && now.threads <= self.threads
        };
        let start = Instant::now();
        while !is_all() && start.elapsed() < SOON {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(is_all(), "{:?} are used, {self:?} before", Self::now());
    }
}

/// Every kind of lock on one name, or on several names of one slot.
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

/// Waits for a lock in the background.
pub fn waits(lock: Lock, limit: Duration) -> JoinHandle<Lease> {
    tokio::spawn(async move { lock.wait(limit).acquire().await.unwrap() })
}

/// Until somebody listens for a lock's release at a node.
pub async fn is_listened_for(node: &Node, name: &str) {
    let pattern = format!("*{name}*");
    eventually("somebody listens", SOON, || {
        ["CHANNELS", "SHARDCHANNELS"].iter().any(|of| {
            let listeners = node.try_run(&["PUBSUB", of, &pattern]);
            matches!(listeners, Ok(Reply::Array(channels)) if !channels.is_empty())
        })
    })
    .await;
}

/// A client that asks again so rarely that only a message tells it of a release in time.
pub async fn patient(url: &str) -> Client {
    let interval = (Duration::from_secs(20), Duration::from_secs(25));
    Client::builder()
        .url(url)
        .retry_interval(interval.0, interval.1)
        .connect()
        .await
        .unwrap()
}

/// Releases a lock for which a [`patient`] client waits at `node`, and hears that it has it by a message.
pub async fn hands_over(kind: &str, lease: Lease, theirs: Lock, node: &Node, name: &str) {
    let waiter = waits(theirs, SOON);
    is_listened_for(node, name).await;
    let released = Instant::now();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
    let theirs = waiter.await.unwrap();
    let limit = if is_timed() { Duration::from_millis(100) } else { SOON };
    let took = released.elapsed();
    assert!(took < limit, "{kind}: {took:?}");
    assert_eq!(theirs.release().await.unwrap(), ReleaseOutcome::Released, "{kind}");
}

/// Clients that hold many locks, and one that waits for some of them.
pub struct Crowd {
    pub clients: Vec<Client>,
    held: Vec<Lease>,
    awaited: Vec<Lease>,
    waiters: Vec<JoinHandle<Lease>>,
}

impl Crowd {
    pub const HELD: usize = 200;
    pub const WAITERS: usize = 50;

    /// `nodes` are those that have the locks; a waiter waits for twice the lease at the most.
    pub async fn gather(url: &str, term: Duration, nodes: &[Node]) -> Self {
        Self::gather_for(url, term, 2 * term, nodes).await
    }

    /// As `gather`, but a waiter waits for `limit` at the most.
    pub async fn gather_for(url: &str, term: Duration, limit: Duration, nodes: &[Node]) -> Self {
        let client = async || {
            let options = Client::builder().url(url).lease(term);
            options.connect().await.unwrap()
        };
        let clients = vec![client().await, client().await, client().await];
        let all = |prefix: &'static str, count: usize| {
            let locks = (0..count).map(|number| clients[number % 2].lock(format!("{prefix}-{number}")));
            join_all(locks.map(|lock| async move { lock.acquire().await.unwrap() }))
        };
        let (held, awaited) = (all("held", Self::HELD).await, all("awaited", Self::WAITERS).await);
        let waiters: Vec<_> = awaited
            .iter()
            .map(|lease| waits(clients[2].lock(lease.name()), limit))
            .collect();
        for node in nodes {
            is_listened_for(node, "awaited").await;
        }
        Self {
            clients,
            held,
            awaited,
            waiters,
        }
    }

    /// All is as it was: the locks are held, the waiters get theirs, and new ones can be acquired.
    pub async fn goes_on(self) {
        let not_so = self.what_does_not_go_on().await;
        assert!(not_so.is_empty(), "{not_so:#?}");
    }

    /// What is not as it was.
    pub async fn what_does_not_go_on(self) -> Vec<String> {
        let lost = self.held.iter().filter(|lease| !lease.is_valid());
        let mut not_so: Vec<String> = lost
            .map(|lease| format!("{}: {:?}", lease.name(), lease.lost_reason()))
            .collect();
        let mut release = async |what: &str, lease: Lease| {
            let name = lease.name().to_owned();
            match lease.release().await {
                Ok(ReleaseOutcome::Released) => {}
                other => not_so.push(format!("{what} {name}: {other:?}")),
            }
        };
        for lease in self.awaited {
            release("awaited", lease).await;
        }
        for waiter in self.waiters {
            release("waited for", waiter.await.unwrap()).await;
        }
        for lease in self.held {
            release("held", lease).await;
        }
        for client in self.clients {
            client.close().await;
        }
        not_so
    }
}

/// Until a primary has nothing of any lock but what counts its tokens.
pub async fn has_tokens_only(node: &Node) {
    let others = || {
        let Ok(Reply::Array(keys)) = node.try_run(&["KEYS", "*"]) else {
            return vec!["no answer".into()];
        };
        let text = |key| match key {
            Reply::Bytes(key) => String::from_utf8_lossy(&key).into_owned(),
            other => format!("{other:?}"),
        };
        let keys: Vec<String> = keys.into_iter().map(text).collect();
        let lasts = |key: &String| key.ends_with(":token") || key.ends_with(":client");
        keys.into_iter().filter(|key| !lasts(key)).collect()
    };
    let start = Instant::now();
    while !others().is_empty() && start.elapsed() < SOON {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(others().is_empty(), "left: {:?}", others());
}

/// Until a replica has everything that its primary has.
pub async fn is_replicated(primary: &Node, replica: &Node) {
    eventually("the replica has everything", SOON, || {
        primary.offset() == replica.offset()
    })
    .await;
}
