//! A primary is demoted in place under load: it becomes a replica and keeps all connections open. The clients must
//! connect again, to the server to which the address leads now, and keep every lease that was replicated.
//!
//! `STEADLOCK_DEMOTIONS` is the number of demotions in a row. With `STEADLOCK_TIMED` all clients must use the new
//! primary within 2 s. `./ci/just test-timing` sets it, because only that task runs without other load on the machine.

mod support;

use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
#[cfg(target_os = "linux")]
use steadlock::observe::{Detail, Observation, Observer};
use steadlock::{Client, Lease, LostReason, ReleaseOutcome};
use steadlock_protocol::Reply;
#[cfg(target_os = "linux")]
use support::clock_offset::ClockOffset;
use support::proxy::Proxy;
#[cfg(target_os = "linux")]
use support::version::Version;
use support::{Redis, check_lock, eventually, is_timed};
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(10);
/// The interval at which a client checks the role of its server.
const ROLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The longest time from the change of the address until a client uses the new primary. With other load: [`SOON`].
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The time from the demotion to the change of the address. A client that only waits learns of the demotion at its next
/// check of the role. This check comes at most 1.5 s after the change, so that the client can connect within the limit.
const ADDRESS_CHANGE_DELAY: Duration = Duration::from_millis(3_500);

async fn client(proxy: &Proxy) -> Client {
    Client::builder()
        .url(proxy.url())
        .lease(Duration::from_secs(12))
        .connect()
        .await
        .unwrap()
}

fn replication(server: &Redis) -> String {
    match server.run(&["INFO", "replication"]) {
        Reply::Bytes(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Makes one server the other's replica, and waits until the replication is online.
async fn replicate(primary: &Redis, replica: &Redis) {
    replica.run(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    wait_until_online(primary).await;
}

async fn wait_until_online(primary: &Redis) {
    eventually("the replica is online", SOON, || {
        replication(primary).contains("state=online")
    })
    .await;
}

/// Demotes one server and promotes the other. No data is lost: FAILOVER lets the replica catch up first.
async fn fail_over(from: &Redis, to: &Redis) {
    from.run(&["FAILOVER", "TO", "127.0.0.1", &to.port.to_string(), "TIMEOUT", "8000"]);
    eventually("the roles have changed", SOON, || {
        replication(to).contains("role:master") && replication(from).contains("role:slave")
    })
    .await;
}

/// Tasks that acquire and release one lock repeatedly.
struct Load {
    is_over: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(clients: &[Client], waiters: usize) -> Self {
        let (is_over, rounds) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let task = |number: usize| {
            let client = clients[number % clients.len()].clone();
            let (is_over, rounds) = (Arc::clone(&is_over), Arc::clone(&rounds));
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let lease = client.lock("busy").acquire().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    lease.release().await.unwrap();
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let tasks = (0..waiters).map(task).collect();
        Self { is_over, rounds, tasks }
    }

    fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            tokio::time::timeout(SOON, task)
                .await
                .expect("every task ends")
                .unwrap();
        }
    }
}

fn spawn_waiter(client: &Client, name: &str) -> JoinHandle<Lease> {
    let lock = client.lock(name);
    tokio::spawn(async move { lock.acquire().await.unwrap() })
}

/// The differences of clocks (`ClockAhead`) that a client has reported.
#[cfg(target_os = "linux")]
#[derive(Clone, Default)]
struct ReportedDifferences(Arc<Mutex<Vec<Duration>>>);

#[cfg(target_os = "linux")]
impl Observer for ReportedDifferences {
    fn observe(&self, observation: &Observation) {
        if let Observation::ClockAhead { by, .. } = observation {
            self.0.lock().unwrap().push(*by);
        }
    }

    fn detail(&self) -> Detail {
        Detail::Trouble
    }
}

/// A primary replicates the time at which a record ends, and a promoted replica compares it with its own clock.
/// Therefore tiers T1 and T2 need synchronized clocks. A client reports a difference once both servers have granted it
/// a lock.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_server_whose_clock_is_ahead_ends_records_early() {
    const AHEAD: i64 = 4_000;
    let primary = Redis::start_version(Version::System, &[], None);
    let replica = Redis::start_with_clock(ClockOffset(AHEAD), &[]);
    replicate(&primary, &replica).await;
    let (proxy, differences) = (Proxy::to(primary.port), ReportedDifferences::default());
    let builder = Client::builder().url(proxy.url());
    let client = builder.observer(differences.clone()).connect().await.unwrap();
    let start = Instant::now();
    let lease = client.lock("a").lease(Duration::from_secs(60)).acquire().await.unwrap();
    let first_took = start.elapsed();
    let left = |server: &Redis| match server.run(&["PTTL", "a"]) {
        Reply::Int(left) => left,
        other => panic!("{other:?}"),
    };
    // An attempt sets a TTL of at most 30 s. The client extends the record at once, so this waits for the reply.
    eventually("replica and holder know of the whole lease", SOON, || {
        left(&replica) > 40_000 && lease.remaining() > Duration::from_secs(40)
    })
    .await;
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    // The two readings are compared, so they have to be of nearly the same moment.
    let at_once = || {
        let start = Instant::now();
        let both = (left(&replica), left(&primary));
        (start.elapsed() < Duration::from_millis(500)).then_some(both)
    };
    let (on_replica, on_primary) = std::iter::repeat_with(at_once).flatten().next().unwrap();
    let early = on_primary - on_replica;
    assert!(
        (AHEAD - 1_000..=AHEAD + 1_000).contains(&early),
        "{on_primary} {on_replica}"
    );
    let deadline = i64::try_from(lease.remaining().as_millis()).unwrap();
    assert!(
        on_replica < deadline,
        "the holder still relies on its lease: {on_replica} {deadline}"
    );
    assert!(
        differences.0.lock().unwrap().is_empty(),
        "one server shows no difference"
    );
    proxy.lead_to(replica.port);
    proxy.cut_all();
    let start = Instant::now();
    for name in ["b", "c"] {
        check_lock(&client, name).await;
    }
    let took = i64::try_from((first_took + start.elapsed()).as_millis()).unwrap();
    let observed = differences.0.lock().unwrap().clone();
    let [by] = observed[..] else {
        panic!("the difference is reported once: {observed:?}")
    };
    let by = i64::try_from(by.as_millis()).unwrap();
    // The client reports a lower bound: it subtracts the time that its calls took.
    assert!((AHEAD - took.max(1_000)..=AHEAD).contains(&by), "{by} ms, {took} ms");
    lease.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_leaves_a_demoted_primary_and_keeps_the_replicated_locks() {
    let demotions = std::env::var("STEADLOCK_DEMOTIONS").map_or(2, |count| count.parse().unwrap());
    let limit = if is_timed() { TIME_LIMIT } else { SOON };
    let (mut primary, mut replica) = (Redis::start(), Redis::start());
    replicate(&primary, &replica).await;
    let proxy = Proxy::to(primary.port);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(client(&proxy).await);
    }
    let waiting_client = client(&proxy).await;
    let held = (0..100).map(|number| {
        let client = clients[number % clients.len()].clone();
        async move { client.lock(format!("held-{number}")).acquire().await.unwrap() }
    });
    let mut held: Vec<Lease> = join_all(held).await;
    let load = Load::start(&clients, 16);
    let mut longest = Duration::ZERO;
    for turn in 0..demotions {
        let awaited = clients[0].lock("awaited").acquire().await.unwrap();
        let waiter = spawn_waiter(&waiting_client, "awaited");
        eventually("the waiter subscribes", SOON, || {
            let listeners = primary.run(&["PUBSUB", "CHANNELS", "*awaited*"]);
            matches!(listeners, Reply::Array(channels) if !channels.is_empty())
        })
        .await;
        wait_until_online(&primary).await;
        fail_over(&primary, &replica).await;
        tokio::time::sleep(ADDRESS_CHANGE_DELAY).await;
        // Deletes one record, as if it had not been replicated.
        let not_replicated = held.swap_remove(turn % held.len());
        replica.run(&["DEL", not_replicated.name()]);

        proxy.lead_to(replica.port);
        let changed = Instant::now();
        let connections = 3 * (clients.len() + 1);
        eventually("all clients are at the new primary", limit, || {
            proxy.connections_to(primary.port) == 0 && proxy.connections_to(replica.port) == connections
        })
        .await;
        let took = changed.elapsed();
        longest = longest.max(took);
        std::mem::swap(&mut primary, &mut replica);

        let rounds = load.rounds();
        eventually("the load continues", SOON, || load.rounds() > rounds + 100).await;
        assert_eq!(awaited.release().await.unwrap(), ReleaseOutcome::Released);
        let granted = tokio::time::timeout(SOON, waiter)
            .await
            .expect("the waiter is granted the lock")
            .unwrap();
        assert_eq!(granted.release().await.unwrap(), ReleaseOutcome::Released);
        let reason = tokio::time::timeout(SOON, not_replicated.lost())
            .await
            .expect("the loss is reported");
        assert_eq!(reason, LostReason::Removed);
        drop(not_replicated);
        for lease in &held {
            assert!(lease.is_valid(), "{turn}: {}: {:?}", lease.name(), lease.lost_reason());
            assert!(
                primary.run(&["EXISTS", lease.name()]) == Reply::Int(1),
                "{}",
                lease.name()
            );
        }
        let again = clients[1].lock(format!("again-{turn}")).acquire().await.unwrap();
        held.push(again);
        println!("demotion {turn}: all on the new primary {took:?} after the address changed");
    }
    println!("{demotions} demotions, the longest took {longest:?}");
    load.end().await;
    for lease in held {
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

#[tokio::test]
async fn the_role_of_a_server_in_use_is_checked_every_five_seconds_and_that_of_an_idle_one_is_not() {
    let server = Redis::start();
    let client = Client::connect(server.url()).await.unwrap();
    let hello_calls = || server.calls("hello");
    tokio::time::sleep(ROLE_CHECK_INTERVAL).await;
    let before = hello_calls();
    tokio::time::sleep(ROLE_CHECK_INTERVAL + Duration::from_secs(1)).await;
    // The check of the role is itself a HELLO.
    let checks = hello_calls() - before;
    assert_eq!(checks, 0, "nothing is held");
    let lease = client.lock("a").acquire().await.unwrap();
    let before = hello_calls();
    tokio::time::sleep(ROLE_CHECK_INTERVAL * 2).await;
    let checks = hello_calls() - before;
    assert!(
        (1..=3).contains(&checks),
        "{checks} in two times {ROLE_CHECK_INTERVAL:?}"
    );
    lease.release().await.unwrap();
}

#[tokio::test]
async fn the_role_of_a_server_with_a_waiter_is_checked_too() {
    let server = Redis::start();
    // Another library holds the lock, so no client of ours holds anything.
    server.run(&["SET", "a", "theirs", "PX", "60000"]);
    let client = Client::connect(server.url()).await.unwrap();
    let lock = client.mutex("a").wait(6 * ROLE_CHECK_INTERVAL);
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
    // Leaves out the HELLO of each new connection and the first check after connecting.
    tokio::time::sleep(ROLE_CHECK_INTERVAL).await;
    let before = server.calls("hello");
    tokio::time::sleep(ROLE_CHECK_INTERVAL * 2).await;
    let checks = server.calls("hello") - before;
    assert!(
        (1..=3).contains(&checks),
        "{checks} in two times {ROLE_CHECK_INTERVAL:?}"
    );
    server.run(&["DEL", "a"]);
    waiter.await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_client_that_reconnects_to_a_replica_retries() {
    let (primary, other) = (Redis::start(), Redis::start());
    let proxy = Proxy::to(primary.port);
    let client = client(&proxy).await;
    let held = client.lock("a").acquire().await.unwrap();
    replicate(&primary, &other).await;
    // The address leads to the replica for a while, as if the name had changed before the roles did.
    proxy.lead_to(other.port);
    let _ = redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
        .query::<i64>(&mut primary.connection());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let refused = client.lock("b").wait(Duration::from_millis(400)).acquire().await;
    let message = refused.map(drop).expect_err("a replica").message().to_owned();
    assert!(message.contains("replica"), "{message}");
    proxy.lead_to(primary.port);
    let lock = client.lock("b").wait(SOON);
    lock.acquire().await.unwrap().release().await.unwrap();
    assert!(held.is_valid());
}
