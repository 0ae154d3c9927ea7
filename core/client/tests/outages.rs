//! Tests of acquisitions and renewals while a real server does not answer, and afterwards.

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use steadlock::observe::{Link, Observation, Observer};
use steadlock::{Builder, Client, Error, ErrorKind, Lease, OnUnavailable, ReleaseOutcome};
use support::cluster::Cluster;
use support::{Redis, eventually, on_time, refusal};

const SOON: Duration = Duration::from_secs(20);
/// The time after which an open breaker sends a probe.
const PAUSE: Duration = Duration::from_millis(500);
/// The number of failures that open a breaker.
const FAILURES: u32 = 3;

/// Builds a client that soon notices an outage.
fn builder() -> Builder {
    Client::builder()
        .command_timeout(Duration::from_secs(1))
        .breaker(FAILURES, PAUSE)
}

fn says_breaker_is_open(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.to_string().contains("circuit breaker")
}

/// Repeats attempts for locks with the slot of this name until the breaker is open. Attempts that time out together are
/// enough to open it.
async fn wait_until_open(client: &Client, name: &str) {
    let start = Instant::now();
    loop {
        let attempts = (0..FAILURES).map(|number| {
            let lock = client.lock(format!("{{{name}}}-{number}"));
            async move { lock.on_unavailable(OnUnavailable::Fail).acquire().await }
        });
        let results = join_all(attempts).await;
        if results
            .iter()
            .any(|result| result.as_ref().is_err_and(says_breaker_is_open))
        {
            return;
        }
        assert!(start.elapsed() < SOON, "the breaker does not open: {results:?}");
    }
}

/// Repeats attempts until the server answers again, and returns the lease.
async fn acquire_when_closed(client: &Client, name: &str) -> Lease {
    let start = Instant::now();
    loop {
        match client.lock(name).on_unavailable(OnUnavailable::Fail).acquire().await {
            Ok(lease) => return lease,
            Err(error) => assert!(start.elapsed() < SOON, "the breaker does not close: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_server_hangs_calls_fail_at_once_and_held_locks_are_kept_and_released() {
    let server = Redis::start();
    let lease = Duration::from_secs(30);
    let client = builder().url(server.url()).lease(lease).connect().await.unwrap();
    let kept = client.lock("kept").acquire().await.unwrap();
    let left = client.lock("left").acquire().await.unwrap();
    server.pause();
    wait_until_open(&client, "canary").await;
    for wait in [Duration::ZERO, SOON] {
        let start = Instant::now();
        let error = refusal(client.lock("a").wait(wait).acquire().await);
        assert!(says_breaker_is_open(&error), "{error}");
        assert!(error.to_string().contains("answer"), "{error}");
        assert!(error.node().is_some() && error.is_retryable() && !error.is_skipped());
        assert!(
            start.elapsed() < on_time(Duration::from_secs(1)),
            "{:?}",
            start.elapsed()
        );
    }
    let error = client.lock("a").is_locked().await.expect_err("no answer");
    assert!(says_breaker_is_open(&error), "{error}");
    let error = refusal(client.lock("a").on_unavailable(OnUnavailable::Skip).acquire().await);
    assert!(error.is_skipped() && error.to_string().contains("skipped"), "{error}");
    let skipped = client.lock("a").on_unavailable(OnUnavailable::Skip).try_acquire().await;
    assert!(skipped.unwrap().is_none());
    let release = tokio::spawn(left.release());
    assert!(kept.is_valid());
    server.resume();
    acquire_when_closed(&client, "a").await.release().await.unwrap();
    // The release has returned `Unknown`, unless the reply came in time.
    release.await.unwrap().unwrap();
    eventually("the lock is released in the background", SOON, || {
        server.run(&["EXISTS", "left"]) == steadlock_protocol::Reply::Int(0)
    })
    .await;
    let released = kept.release().await.unwrap();
    assert!(
        matches!(released, ReleaseOutcome::Released | ReleaseOutcome::Unknown),
        "{released:?}"
    );
    eventually("the record is gone", SOON, || {
        server.run(&["EXISTS", "kept"]) == steadlock_protocol::Reply::Int(0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_granted_locally_during_an_outage_and_by_the_server_afterwards() {
    let mut server = Redis::start();
    let client = builder()
        .url(server.url())
        .on_unavailable(OnUnavailable::Local)
        .metrics()
        .connect()
        .await
        .unwrap();
    let counts = |what: &str| client.metrics().unwrap().lines().any(|line| line == what);
    let before = client.lock("a").acquire().await.unwrap();
    assert!(!before.is_degraded());
    let token = before.token();
    before.release().await.unwrap();
    server.stop();
    wait_until_open(&client, "canary").await;
    let local = client.lock("a").acquire().await.unwrap();
    assert!(local.is_degraded() && local.is_valid() && local.token().is_none());
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    let fair = client.fair_lock("fair").acquire().await.unwrap();
    let next = client.fair_lock("fair");
    let next = tokio::spawn(async move { next.acquire().await });
    assert!(counts("steadlock_breakers_open 1") && counts("steadlock_breakers_opened_total 1"));
    let degraded = "steadlock_acquisitions_total{kind=\"lock\",group=\"none\",outcome=\"degraded\"} 1";
    assert!(counts(degraded), "{}", client.metrics().unwrap());
    // A semaphore has no degraded leases, as only the server can count its permits.
    let error = refusal(client.semaphore("s", 2).acquire(1).await);
    assert!(says_breaker_is_open(&error), "{error}");
    server.start_again();
    let canary = acquire_when_closed(&client, "canary").await;
    assert!(counts("steadlock_breakers_open 0") && counts("steadlock_breakers_opened_total 1"));
    assert!(!canary.is_degraded());
    // A degraded lease excludes other callers of this client until it is released.
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(local.release().await.unwrap(), ReleaseOutcome::Released);
    let granted = client.lock("a").acquire().await.unwrap();
    assert!(!granted.is_degraded() && granted.token() > token);
    fair.release().await.unwrap();
    assert!(!next.await.unwrap().unwrap().is_degraded());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_breaker_of_one_shard_does_not_affect_the_others() {
    let cluster = Cluster::start();
    for node in &cluster.nodes {
        node.run(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let client = builder()
        .url(cluster.url.as_str())
        .on_unavailable(OnUnavailable::Local)
        .connect()
        .await
        .unwrap();
    let primaries = cluster.primaries();
    let names: Vec<String> = primaries.iter().map(|node| cluster.name_at(node, "of")).collect();
    for name in &names {
        client.lock(name).acquire().await.unwrap().release().await.unwrap();
    }
    primaries[0].pause();
    wait_until_open(&client, &names[0]).await;
    assert!(client.lock(&names[0]).acquire().await.unwrap().is_degraded());
    for name in &names[1..] {
        let lease = client.lock(name).acquire().await.unwrap();
        assert!(!lease.is_degraded(), "{name}");
        lease.release().await.unwrap();
    }
    primaries[0].resume();
    acquire_when_closed(&client, &names[0]).await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_fail_at_once_without_a_majority_and_succeed_without_a_minority() {
    let mut servers = [Redis::start(), Redis::start(), Redis::start()];
    let urls: Vec<String> = servers.iter().map(Redis::url).collect();
    let client = builder().primaries(&urls).connect().await.unwrap();
    servers[0].stop();
    for number in 0..5 {
        let lease = client.lock(format!("{number}")).acquire().await.unwrap();
        lease.release().await.unwrap();
    }
    servers[1].stop();
    wait_until_open(&client, "a").await;
    servers[1].start_again();
    acquire_when_closed(&client, "a").await.release().await.unwrap();
    let local = builder()
        .primaries(&urls)
        .on_unavailable(OnUnavailable::Local)
        .connect()
        .await;
    assert_eq!(
        local.map(drop).expect_err("no majority").kind(),
        ErrorKind::InvalidArgument
    );
}

#[tokio::test]
async fn an_outage_policy_needs_a_breaker() {
    let plain = Client::connect("memory://").await.unwrap();
    let error = refusal(plain.lock("a").on_unavailable(OnUnavailable::Skip).acquire().await);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("breaker_failures"), "{error}");
    for (failures, pause) in [(0, PAUSE), (1_000_001, PAUSE), (5, Duration::ZERO)] {
        let error = Client::builder()
            .url("memory://")
            .breaker(failures, pause)
            .connect()
            .await;
        assert_eq!(error.map(drop).expect_err("no").kind(), ErrorKind::InvalidArgument);
    }
}

/// An observer that keeps every observation.
#[derive(Clone, Default)]
struct RecordedObservations(Arc<Mutex<Vec<Observation>>>);

impl Observer for RecordedObservations {
    fn observe(&self, observation: &Observation) {
        self.0.lock().unwrap().push(observation.clone());
    }
}

impl RecordedObservations {
    fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    fn causes_of_losses(&self) -> Vec<(Link, String)> {
        let observed = self.0.lock().unwrap();
        let loss = |observation: &Observation| match observation {
            Observation::Disconnected { link, cause, .. } => Some((*link, cause.clone())),
            _ => None,
        };
        observed.iter().filter_map(loss).collect()
    }

    fn slowest_renewal(&self) -> Duration {
        let observed = self.0.lock().unwrap();
        let took = |observation: &Observation| match observation {
            Observation::Renewed { took, .. } => Some(*took),
            _ => None,
        };
        observed.iter().filter_map(took).max().unwrap_or_default()
    }
}

/// While a short lease is held, no renewal may wait long for an answer. After its end other renewals may wait longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ended_short_lease_no_longer_shortens_the_silence_timeout_of_renewals() {
    const LEASE: Duration = Duration::from_secs(9);
    const SHORT: Duration = Duration::from_millis(600);
    /// The silence that the short lease allows.
    const SILENCE: Duration = Duration::from_millis(250);
    let (server, observed) = (Redis::start(), RecordedObservations::default());
    let client = Client::builder()
        .url(server.url())
        .lease(LEASE)
        .observer(observed.clone());
    let client = client.connect().await.unwrap();
    let short = client.lock("short").lease(SHORT).renewed().acquire().await.unwrap();
    server.pause();
    let is_short = |(link, cause): (Link, String)| link == Link::Renewals && cause.contains("no answer for 250ms");
    eventually("the connection is given up", SOON, || {
        observed.causes_of_losses().into_iter().any(is_short)
    })
    .await;
    server.resume();
    // The short lease has ended by its release, if it did not expire before.
    let _ = short.release().await;

    // These leases begin at different times, so that at each moment one of them is about to be renewed.
    let mut leases = Vec::new();
    for number in 0..10 {
        leases.push(client.lock(format!("long:{number}")).acquire().await.unwrap());
        tokio::time::sleep(LEASE / 30).await;
    }
    observed.clear();
    let start = Instant::now();
    // On a busy machine a pause of the server can pass without a renewal.
    while observed.slowest_renewal() <= SILENCE * 3 / 2 {
        assert!(start.elapsed() < SOON, "no renewal waited longer for its answer");
        server.pause();
        tokio::time::sleep(SILENCE * 4).await;
        server.resume();
        tokio::time::sleep(SILENCE * 2).await;
    }
    assert_eq!(observed.causes_of_losses(), []);
    assert!(leases.iter().all(Lease::is_valid));
}
