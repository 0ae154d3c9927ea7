//! Tests of a lock on a majority of five redis-servers.

mod support;

use std::time::{Duration, Instant};

use steadlock::host::{Acquire, Completion, Host, Kind, LockRef, Op, Options};
use steadlock::{Client, Error, ErrorKind, Lease, LostReason, ReleaseOutcome};
use steadlock_protocol::Reply;
use support::streaming::Streaming;
use support::{Redis, eventually, on_time};

const SOON: Duration = Duration::from_secs(20);

struct FiveServers {
    servers: Vec<Redis>,
}

impl FiveServers {
    fn start() -> Self {
        Self {
            servers: (0..5).map(|_| Redis::start()).collect(),
        }
    }

    fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Redis::url).collect()
    }

    async fn connect(&self) -> Client {
        Client::redlock(self.urls()).await.expect("a majority")
    }

    async fn connect_with(&self, lease: u64, timeout: u64) -> Client {
        Client::builder()
            .primaries(self.urls())
            .lease(Duration::from_millis(lease))
            .command_timeout(Duration::from_millis(timeout))
            .connect()
            .await
            .expect("a majority")
    }

    fn holders(&self, name: &str) -> usize {
        let holds = |server: &&Redis| server.run(&["EXISTS", name]) == Reply::Int(1);
        self.servers.iter().filter(holds).count()
    }
}

fn kind(result: Result<impl Sized, Error>) -> ErrorKind {
    result.err().expect("an error").kind()
}

#[tokio::test]
async fn a_majority_grants_a_lock_and_other_clients_are_refused_and_woken() {
    let five = FiveServers::start();
    let (one, two) = (five.connect().await, five.connect().await);
    let held = one.lock("a").acquire().await.unwrap();
    assert_eq!(held.token(), None);
    eventually("all five servers have the record", SOON, || five.holders("a") == 5).await;
    assert!(one.lock("a").is_locked().await.unwrap());
    assert!(two.lock("a").try_acquire().await.unwrap().is_none());
    assert!(one.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(
        kind(two.lock("a").wait(Duration::from_secs(1)).acquire().await),
        ErrorKind::LockTimeout
    );
    let next = two.lock("a").wait(SOON);
    let waiter = tokio::spawn(async move { next.acquire().await });
    assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);
    let next = waiter.await.unwrap().unwrap();
    assert_eq!(next.release().await.unwrap(), ReleaseOutcome::Released);
    eventually("nothing is left", SOON, || five.holders("a") == 0).await;
    assert!(!one.lock("a").is_locked().await.unwrap());
}

#[tokio::test]
async fn two_of_five_servers_may_be_down_but_not_three() {
    let mut five = FiveServers::start();
    let client = five.connect().await;
    let held = client.lock("before").acquire().await.unwrap();
    five.servers[0].stop();
    five.servers[3].stop();
    assert!(held.is_valid());
    let lease = client.lock("a").wait(SOON).acquire().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    let fresh = five.connect().await;
    fresh.lock("b").acquire().await.unwrap().release().await.unwrap();
    assert!(
        fresh.lock("before").try_acquire().await.unwrap().is_none(),
        "the three that are up say who holds it"
    );

    five.servers[4].stop();
    let start = Instant::now();
    let refused = client.lock("a").wait(Duration::from_millis(700)).acquire().await;
    assert_eq!(kind(refused), ErrorKind::Unavailable);
    assert!(
        start.elapsed() < on_time(Duration::from_millis(1_000)),
        "{:?}",
        start.elapsed()
    );
    // A single attempt waits for the missing servers no longer than the response timeout.
    let start = Instant::now();
    assert_eq!(kind(client.lock("a").try_acquire().await), ErrorKind::Unavailable);
    assert!(
        start.elapsed() < on_time(Duration::from_millis(900)),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(kind(Client::redlock(five.urls()).await), ErrorKind::Unavailable);
    drop(held);
}

#[tokio::test]
async fn a_single_attempt_waits_for_the_connections() {
    let five = FiveServers::start();
    let options = Options {
        primaries: Some(five.urls()),
        ..Options::default()
    };
    let host = Host::open(options, Box::new(|| {})).unwrap();
    let once = Acquire {
        lock: LockRef::One(Kind::Lock, "a".into()),
        wait_ms: Some(0.0),
        ..Acquire::default()
    };
    let Completion::Granted(lease) = host.start(Op::Acquire(once)).await.unwrap() else {
        panic!("no other owner holds the lock");
    };
    eventually("all five servers have the record", SOON, || five.holders("a") == 5).await;
    host.start(Op::Release { lease: lease.id() }).await.unwrap();
    eventually("nothing is left", SOON, || five.holders("a") == 0).await;
    host.close_blocking();
}

#[tokio::test]
async fn a_stopped_server_does_not_delay_the_others() {
    let five = FiveServers::start();
    let client = five.connect().await;
    client.lock("warm").acquire().await.unwrap().release().await.unwrap();
    five.servers[1].pause();
    five.servers[2].pause();
    let start = Instant::now();
    let lease = client.lock("a").acquire().await.unwrap();
    assert!(
        start.elapsed() < on_time(Duration::from_millis(200)),
        "{:?}",
        start.elapsed()
    );
    assert!(lease.remaining() > Duration::from_secs(30) - on_time(Duration::from_secs(1)));
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);

    // With a third one stopped there is no majority. Each round ends at its response timeout, and the servers that
    // granted the lock receive a compensating release.
    five.servers[3].pause();
    let start = Instant::now();
    let refused = client.lock("a").wait(Duration::from_millis(1_200)).acquire().await;
    assert_eq!(kind(refused), ErrorKind::Unavailable);
    assert!(
        start.elapsed() < on_time(Duration::from_millis(1_500)),
        "{:?}",
        start.elapsed()
    );
    for server in &five.servers[1..4] {
        server.resume();
    }
    eventually("nothing is left", Duration::from_secs(10), || five.holders("a") == 0).await;
}

/// Acquires a lock that two servers grant at once and three servers only 100 ms later. Returns the time of the first
/// two grants, and the lease.
async fn granted_late(five: &FiveServers, client: &Client) -> (Instant, Lease) {
    let (began, mut number) = (Instant::now(), 0);
    loop {
        number += 1;
        for server in &five.servers[0..3] {
            server.pause();
        }
        let name = format!("a-{number}");
        let lock = client.lock(&name);
        let acquiring = tokio::spawn(async move { lock.try_acquire().await });
        eventually("two granted it", SOON, || {
            let granted = |server: &Redis| server.run(&["EXISTS", &name]) == Reply::Int(1);
            acquiring.is_finished() || five.servers[3..].iter().all(granted)
        })
        .await;
        let start = Instant::now();
        // Stays within the response timeout of a round, 500 ms.
        tokio::time::sleep(Duration::from_millis(100)).await;
        for server in &five.servers[0..3] {
            server.resume();
        }
        match acquiring.await.unwrap() {
            Ok(lease) => return (start, lease.expect("no other owner holds the lock")),
            // On a busy machine the round can end before all have answered.
            Err(error) => assert!(
                error.kind() == ErrorKind::Unavailable && began.elapsed() < SOON,
                "{error}"
            ),
        }
    }
}

#[tokio::test]
async fn a_lease_counts_from_before_the_primaries_were_asked() {
    let five = FiveServers::start();
    let client = five.connect_with(30_000, 3_000).await;
    let (start, lease) = granted_late(&five, &client).await;
    let (passed, left) = (start.elapsed(), lease.remaining());
    assert!(passed >= Duration::from_millis(100));
    // The deadline allows for the drift of clocks: 1 % of the lease and 20 ms.
    assert!(passed + left <= Duration::from_millis(30_000 - 300 - 20), "{left:?}");
    let name = lease.name().to_owned();
    let outlives_it = |server: &&Redis| match server.run(&["PTTL", &name]) {
        Reply::Int(millis) => u128::try_from(millis).is_ok_and(|millis| millis >= lease.remaining().as_millis()),
        _ => false,
    };
    assert!(five.servers.iter().filter(outlives_it).count() >= 3);
    lease.release().await.unwrap();
    eventually("nothing is left", SOON, || five.holders(&name) == 0).await;
}

#[tokio::test]
async fn leases_are_renewed_at_healthy_servers_while_one_hangs() {
    let five = FiveServers::start();
    let client = five.connect_with(4_000, 3_000).await;
    let lease = client.lock("a").acquire().await.unwrap();
    eventually("all five servers have the record", SOON, || five.holders("a") == 5).await;
    five.servers[0].pause();
    five.servers[1].pause();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(lease.is_valid(), "a majority renewed it: {:?}", lease.lost_reason());
    let lost = lease.lost();
    five.servers[2].pause();
    let reason = tokio::time::timeout(on_time(Duration::from_millis(4_600)), lost)
        .await
        .unwrap();
    assert_eq!(reason, LostReason::Expired);
    assert!(!lease.is_valid());
    for server in &five.servers[0..3] {
        server.resume();
    }
}

#[tokio::test]
async fn leases_are_renewed_at_healthy_servers_while_one_streams_without_end() {
    const LEASE: Duration = Duration::from_secs(3);
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let stream = Streaming::to(servers[0].port);
    let client = Client::builder()
        .primaries([stream.url(), servers[1].url(), servers[2].url()])
        .lease(LEASE)
        .connect()
        .await
        .expect("a majority");
    let lease = client.lock("a").acquire().await.unwrap();
    let is_held = |server: &Redis| server.run(&["EXISTS", "a"]) == Reply::Int(1);
    eventually("all three servers have the record", SOON, || {
        servers.iter().all(is_held)
    })
    .await;
    stream.begin();
    tokio::time::sleep(LEASE * 3 / 2).await;
    assert!(lease.is_valid(), "a majority renewed it: {:?}", lease.lost_reason());
    assert!(servers[1..].iter().all(is_held));
    // The client has read messages during all of this time, and reads more.
    let before = stream.messages();
    eventually("the server still streams", SOON, || stream.messages() > before).await;
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_a_majority_lost_is_lost() {
    let five = FiveServers::start();
    let client = five.connect_with(4_000, 3_000).await;
    let lease = client.lock("a").acquire().await.unwrap();
    eventually("all five servers have the record", SOON, || five.holders("a") == 5).await;
    for server in &five.servers[0..2] {
        server.run(&["DEL", "a"]);
    }
    // All renewals come within a third of the lease.
    tokio::time::sleep(Duration::from_millis(1_800)).await;
    assert!(lease.is_valid());
    assert_eq!(five.holders("a"), 3, "a renewal creates no record");
    five.servers[2].run(&["DEL", "a"]);
    let reason = tokio::time::timeout(SOON, lease.lost()).await.unwrap();
    assert_eq!(reason, LostReason::Removed);
    lease.release().await.unwrap();
    eventually("nothing is left", SOON, || five.holders("a") == 0).await;
}

#[tokio::test]
async fn one_server_under_two_urls_is_misconfigured() {
    let (a, b) = (Redis::start(), Redis::start());
    let twice = [a.url(), b.url(), format!("redis://localhost:{}", a.port)];
    assert_eq!(kind(Client::redlock(twice).await), ErrorKind::Misconfigured);
    assert_eq!(
        kind(Client::redlock([a.url(), a.url(), b.url()]).await),
        ErrorKind::Misconfigured
    );
    assert_eq!(
        kind(Client::redlock([a.url(), b.url()]).await),
        ErrorKind::InvalidArgument
    );
}

#[tokio::test]
async fn other_kinds_and_reentry_are_refused() {
    let name = std::process::id();
    let client = Client::redlock((0..3).map(|node| format!("memory://redlock-{name}-{node}")))
        .await
        .unwrap();
    for lock in [
        client.fair_lock("a"),
        client.read_write_lock("a").write,
        client.semaphore("a", 1).permits(1),
        client.multi_lock([&client.mutex("a")]),
    ] {
        assert_eq!(kind(lock.acquire().await), ErrorKind::InvalidArgument, "{lock:?}");
    }
    let held = client.mutex("a").acquire().await.unwrap();
    assert_eq!(
        kind(client.lock("a").within(&held).acquire().await),
        ErrorKind::InvalidArgument
    );
    held.extend(Some(Duration::from_secs(50))).await.unwrap();
    assert!(held.remaining() > Duration::from_secs(45));
    assert_eq!(kind(client.set_limit("a", 2).await), ErrorKind::InvalidArgument);
    assert!(client.force_release(&client.lock("a")).await.unwrap());
    assert!(
        client.lock("a").try_acquire().await.unwrap().is_none(),
        "the local holder does not know yet"
    );
    assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Expired);
    client.lock("a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_forced_release_does_not_affect_the_next_owner() {
    let five = FiveServers::start();
    let client = five.connect_with(30_000, 20_000).await;
    let held = client.lock("a").acquire().await.unwrap();
    eventually("all five servers have the record", SOON, || five.holders("a") == 5).await;
    let operator = five.connect_with(30_000, 20_000).await;
    let slow = &five.servers[4];
    slow.pause();
    let mut forced = tokio::spawn(async move { operator.force_release(&operator.lock("a")).await });
    let is_free = |server: &Redis| server.run(&["EXISTS", "a"]) == Reply::Int(0);
    eventually("four are free", SOON, || five.servers[..4].iter().all(is_free)).await;
    // The call waits for the last server. Otherwise it could remove the record of the next owner there.
    let soon = tokio::time::timeout(Duration::from_millis(300), &mut forced);
    assert!(soon.await.is_err());
    slow.resume();
    assert!(forced.await.unwrap().unwrap());
    assert_eq!(five.holders("a"), 0);
    assert_ne!(held.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn all_contenders_are_granted_without_messages() {
    let five = FiveServers::start();
    let clients = [five.connect().await, five.connect().await, five.connect().await];
    let start = Instant::now();
    let mut tasks = Vec::new();
    for client in &clients {
        let lock = client.lock("busy").wait(Duration::from_secs(30));
        tasks.push(tokio::spawn(async move {
            for _ in 0..5 {
                let lease = lock.acquire().await.unwrap();
                assert!(lease.is_valid());
                lease.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    eventually("nothing is left", SOON, || five.holders("busy") == 0).await;
}
