//! Tests of the primary that a client chooses when sentinels are wrong, late or gone.

mod rounds;
#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use steadlock::{Client, ErrorKind, Lease, ReleaseOutcome};
use steadlock_protocol::Reply;
use support::crowd::wait_until_replicated;
use support::fake_sentinel::FakeSentinel;
use support::proxy::{ConnectionUse, Proxy};
use support::rig::Node;
use support::sentinel::{SERVICE, SentinelRig};
use support::{Redis, eventually, unused_port};

const SOON: Duration = Duration::from_secs(10);

fn url(sentinels: &[&FakeSentinel]) -> String {
    let ports: Vec<u16> = sentinels.iter().map(|sentinel| sentinel.port).collect();
    SentinelRig::url_of(&ports, SERVICE)
}

async fn connect(sentinels: &[&FakeSentinel]) -> Client {
    Client::connect(url(sentinels)).await.unwrap()
}

async fn acquire(client: &Client, name: &str) -> Lease {
    client.lock(name).wait(SOON).acquire().await.unwrap()
}

fn has_key(server: &Redis, name: &str) -> bool {
    matches!(server.run(&["KEYS", &format!("*{name}*")]), Reply::Array(keys) if !keys.is_empty())
}

/// Waits until the client acquires locks at this server.
async fn wait_until_used(client: &Client, server: &Redis, name: &str) {
    let start = Instant::now();
    for number in 0.. {
        // Each attempt has a new name, because the counter of a name's tokens stays on the server for a while.
        let name = format!("{name}-{number}.");
        let lease = acquire(client, &name).await;
        let is_there = has_key(server, &name);
        let _ = lease.release().await;
        if is_there {
            return;
        }
        assert!(start.elapsed() < SOON, "the server is not used");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_not_used_and_sentinels_are_asked_until_they_name_a_primary() {
    let (primary, replica) = (Redis::start(), Redis::start());
    replica.run(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    let sentinel = FakeSentinel::naming(replica.port, 1);
    let connecting = tokio::spawn({
        let url = url(&[&sentinel]);
        async move { Client::connect(url).await }
    });
    eventually("the client asks the sentinel repeatedly", SOON, || {
        sentinel.calls() >= 4
    })
    .await;
    sentinel.name(primary.port, 2);
    let client = connecting.await.unwrap().unwrap();
    let lease = acquire(&client, "awaited").await;
    assert!(has_key(&primary, "awaited"));
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(replica.calls("evalsha") + replica.calls("eval"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_connection_is_retried_until_its_timeout() {
    let sentinel = FakeSentinel::naming(unused_port(), 1);
    let error = Client::builder()
        .url(url(&[&sentinel]))
        .connect_timeout(Duration::from_secs(1))
        .connect()
        .await;
    let error = error.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(sentinel.calls() >= 2, "{}", sentinel.calls());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_answer_wins_in_any_order_and_an_older_one_never_does() {
    let (old, new) = (Redis::start(), Redis::start());
    let (late, up_to_date) = (FakeSentinel::naming(old.port, 4), FakeSentinel::naming(new.port, 5));
    for order in [[&late, &up_to_date], [&up_to_date, &late]] {
        let client = connect(&order).await;
        wait_until_used(&client, &new, &format!("newest-{}", order[0].port)).await;
        late.switch(old.port, 4);
        for number in 0..50 {
            let name = format!("still-{}-{number}.", order[0].port);
            let lease = acquire(&client, &name).await;
            assert!(has_key(&new, &name));
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_follow_a_switch_at_once_although_the_old_primary_is_up() {
    // By default a primary delays a snapshot by 5 s, so that more replicas can share it.
    let start = || Redis::start_with(&["--repl-diskless-sync-delay", "0"], None);
    let (old, new) = (start(), start());
    let sentinel = FakeSentinel::naming(old.port, 1);
    let client = connect(&[&sentinel]).await;
    let held = acquire(&client, "held").await;
    let other = connect(&[&sentinel]).await;
    let waiter = tokio::spawn(async move { acquire(&other, "held").await });
    let listens = || matches!(old.run(&["PUBSUB", "CHANNELS", "*held*"]), Reply::Array(of) if !of.is_empty());
    eventually("the waiter subscribes", SOON, listens).await;
    new.run(&["REPLICAOF", "127.0.0.1", &old.port.to_string()]);
    eventually("the replica has the record", SOON, || has_key(&new, "held")).await;
    new.run(&["REPLICAOF", "NO", "ONE"]);
    sentinel.switch(new.port, 2);
    let listens = || matches!(new.run(&["PUBSUB", "CHANNELS", "*held*"]), Reply::Array(of) if !of.is_empty());
    // A client that does not notice the switch asks its sentinel 10 s after it has connected.
    eventually("the waiter subscribes there", Duration::from_secs(6), listens).await;
    wait_until_used(&client, &new, "moved").await;
    assert!(held.is_valid());
    let before = old.calls("evalsha") + old.calls("eval");
    assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);
    let theirs = waiter.await.unwrap();
    assert_eq!(theirs.release().await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(old.calls("evalsha") + old.calls("eval"), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losing_the_sentinels_costs_no_lease_while_the_primary_is_up() {
    let primary = Redis::start();
    let sentinel = FakeSentinel::naming(primary.port, 1);
    let proxy = Proxy::to(sentinel.port);
    let client = Client::connect(SentinelRig::url_of(&[proxy.port], SERVICE))
        .await
        .unwrap();
    let held = acquire(&client, "held").await;
    proxy.refuse();
    eventually("a connection to cut", SOON, || {
        proxy.count(ConnectionUse::Subscriptions) > 0
    })
    .await;
    proxy.cut(ConnectionUse::Subscriptions);
    for _ in 0..50 {
        assert_eq!(
            acquire(&client, "other").await.release().await.unwrap(),
            ReleaseOutcome::Released
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(held.is_valid());
    // The client asks a sentinel as soon as it is reachable again, since that sentinel may know a newer primary.
    let new = Redis::start();
    sentinel.name(new.port, 2);
    proxy.lead_to(sentinel.port);
    let start = Instant::now();
    wait_until_used(&client, &new, "news").await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_not_opened_again_before_a_sentinel_has_answered() {
    let primary = Redis::start();
    let to_primary = Proxy::to(primary.port);
    let sentinel = FakeSentinel::naming(to_primary.port, 1);
    let to_sentinel = Proxy::to(sentinel.port);
    let client = Client::connect(SentinelRig::url_of(&[to_sentinel.port], SERVICE))
        .await
        .unwrap();
    assert_eq!(
        acquire(&client, "before").await.release().await.unwrap(),
        ReleaseOutcome::Released
    );
    eventually("the client is connected to both", SOON, || {
        to_sentinel.count(ConnectionUse::Subscriptions) > 0 && to_primary.count(ConnectionUse::Commands) > 0
    })
    .await;
    to_sentinel.refuse();
    to_sentinel.cut(ConnectionUse::Subscriptions);
    let before = to_sentinel.accepted();
    eventually("the client retries the sentinel", SOON, || {
        to_sentinel.accepted() > before + 2
    })
    .await;
    let connected = to_primary.accepted();
    to_primary.cut(ConnectionUse::Commands);
    let error = client
        .lock("lost")
        .wait(Duration::from_secs(1))
        .acquire()
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        error.to_string().contains(&format!("127.0.0.1:{}", to_sentinel.port)),
        "{error}"
    );
    assert_eq!(to_primary.accepted(), connected);
    to_sentinel.lead_to(sentinel.port);
    assert_eq!(
        acquire(&client, "again").await.release().await.unwrap(),
        ReleaseOutcome::Released
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_client_says_why_sentinels_name_no_primary_and_continues_when_they_do() {
    let primary = Redis::start();
    let proxy = Proxy::to(primary.port);
    let sentinel = FakeSentinel::naming(proxy.port, 1);
    let options = Client::builder().url(url(&[&sentinel]));
    // An attempt to connect that receives no reply ends soon.
    let client = options.connect_timeout(Duration::from_secs(1)).connect().await.unwrap();
    let lease = acquire(&client, "before").await;
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    sentinel.forget();
    proxy.cut_all();
    let (start, mut explained_at) = (Instant::now(), None);
    while explained_at.is_none_or(|at: Instant| at.elapsed() < SOON / 2) {
        let lock = client.lock("new").wait(SOON / 100);
        if let Err(error) = lock.acquire().await.map(drop) {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            let is_explained = error.to_string().contains("know no service 'mymaster'");
            assert!(is_explained || explained_at.is_none(), "{error}");
            explained_at = explained_at.or_else(|| is_explained.then(Instant::now));
        }
        assert!(start.elapsed() < 2 * SOON, "no error says why");
    }
    sentinel.name(proxy.port, 2);
    assert_eq!(
        acquire(&client, "new").await.release().await.unwrap(),
        ReleaseOutcome::Released
    );
}

/// Returns, for each of a user's connections to a sentinel, whether it listens to both channels.
fn subscribed_connections(sentinel: &Node, user: &str) -> Vec<bool> {
    let reply = sentinel.text(&["CLIENT", "LIST"]);
    let of_user = reply.lines().filter(|line| line.contains(&format!("user={user} ")));
    of_user.map(|line| line.contains("sub=2 ")).collect()
}

/// Gives the sentinels' user more and more rights, and checks the effect of each group of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_right_of_the_sentinel_user_has_its_documented_effect() {
    const ADDRESS: &str = "+sentinel|get-master-addr-by-name";
    const NOTIFICATIONS: [&str; 3] = ["+subscribe", "&+switch-master", "&+promoted-slave"];
    const SENTINELS: [&str; 3] = ["+sentinel|master", "+sentinel|myid", "+sentinel|sentinels"];
    let rig = SentinelRig::start();
    let sentinels = rig.sentinels();
    let users = [
        ("address", vec![ADDRESS]),
        ("notifications", [&[ADDRESS][..], &NOTIFICATIONS].concat()),
        ("sentinels", [&[ADDRESS][..], &NOTIFICATIONS, &SENTINELS].concat()),
    ];
    let mut clients = Vec::new();
    for (user, rights) in users {
        for sentinel in &sentinels {
            let rule = [&["ACL", "SETUSER", user, "on", ">sesame", "resetchannels"][..], &rights].concat();
            sentinel.run(&rule);
        }
        let url = SentinelRig::url_of(&[sentinels[0].port], SERVICE);
        let url = format!("{url}?sentinel_user={user}&sentinel_password=sesame");
        clients.push((user, Client::connect(url).await.unwrap()));
    }
    for (user, client) in &clients {
        let lease = acquire(client, user).await;
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{user}");
    }
    let is_at_the_others = || {
        sentinels[1..]
            .iter()
            .all(|other| subscribed_connections(other, "sentinels") == [true])
    };
    eventually("one client subscribes at the other sentinels", SOON, is_at_the_others).await;
    for (user, at_first) in [("address", false), ("notifications", true), ("sentinels", true)] {
        assert_eq!(subscribed_connections(&sentinels[0], user), [at_first], "{user}");
    }
    for user in ["address", "notifications"] {
        assert!(
            sentinels[1..]
                .iter()
                .all(|other| subscribed_connections(other, user).is_empty()),
            "{user} is connected to the other sentinels"
        );
    }
    // A client without notifications asks the sentinels when its connection breaks, or when the old primary reports
    // that it is a replica.
    let replicas = rig.replicas();
    for replica in &replicas {
        wait_until_replicated(&rig.primary(), replica).await;
    }
    sentinels[1].run(&["SENTINEL", "FAILOVER", SERVICE]);
    let promoted = || replicas.iter().find(|replica| replica.is_primary());
    eventually("a replica is promoted", 3 * SOON, || promoted().is_some()).await;
    let promoted = promoted().unwrap();
    for (user, client) in &clients {
        let start = Instant::now();
        for number in 0.. {
            let name = format!("{user}-{number}.");
            let lock = client.lock(&name).wait(Duration::from_secs(1));
            let lease = lock.acquire().await;
            let is_there = promoted.has_key(&name);
            drop(lease);
            if is_there {
                break;
            }
            assert!(start.elapsed() < 3 * SOON, "{user} does not use the promoted server");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
