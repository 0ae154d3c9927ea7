//! Tests of `inspect`, `wait` and `release`.

use std::time::{Duration, Instant};

use serde_json::Value;
use steadlock::{Client, LostReason};
use steadlock_protocol::Reply;

use crate::support::{Rig, Served, command, errors, eventually, json, run, status, text};

const LONG: Duration = Duration::from_secs(60);

/// Returns the holds of a name on the first server.
fn holds(inspected: &Value) -> Vec<Value> {
    inspected["servers"][0]["holds"].as_array().unwrap().clone()
}

#[tokio::test]
async fn each_kind_is_shown_with_its_holder_and_remaining_time() {
    for server in Server::each() {
        let url = server.url();
        let client = Client::connect(url).await.unwrap();
        let locks = [
            ("lock", client.lock("a")),
            ("mutex", client.mutex("b")),
            ("lock", client.fair_lock("c")),
            ("read_lock", client.read_write_lock("d").read),
            ("write_lock", client.read_write_lock("e").write),
            ("semaphore", client.semaphore("f{x}", 5).permits(2)),
            ("once", client.once("g").as_lock()),
            ("leader", client.leader("h{x}").as_lock()),
        ];
        for (kind, lock) in locks {
            assert_eq!(status(&run(url, &["inspect", lock.name()])), 1, "{kind}: free");
            let lease = lock.clone().lease(LONG).acquire().await.unwrap();
            let owner = lock.holder().await.unwrap().unwrap().owner;
            let output = run(url, &["inspect", lock.name()]);
            assert_eq!(status(&output), 0, "{kind}: {output:?}");
            assert!(text(&output).contains(&owner), "{kind}: {}", text(&output));
            let inspected = json(url, &["inspect", lock.name()]);
            let [hold] = &holds(&inspected)[..] else {
                panic!("{kind}: {inspected}")
            };
            assert_eq!(hold["kind"], kind);
            assert_eq!(hold["holder"]["owner"], owner.as_str());
            assert_eq!(hold["holder"]["library"], "steadlock");
            let left = hold["left_ms"].as_u64().unwrap();
            assert!((20_000..=60_000).contains(&left), "{kind}: {inspected}");
            if let Some(token) = lease.token() {
                assert_eq!(
                    inspected["servers"][0]["token"],
                    token.to_string().parse::<u64>().unwrap()
                );
            }
            lease.release().await.unwrap();
        }
        client.close().await;
    }
}

/// A server of each kind.
enum Server {
    Served(Served),
    Rig(Rig),
}

impl Server {
    fn each() -> [Self; 3] {
        [
            Self::Served(Served::start()),
            Self::Rig(Rig::start("standalone")),
            Self::Rig(Rig::start("cluster")),
        ]
    }

    fn url(&self) -> &str {
        match self {
            Self::Served(served) => &served.url,
            Self::Rig(rig) => &rig.url,
        }
    }
}

#[tokio::test]
async fn the_waiters_of_a_fair_lock_are_shown_in_order() {
    let server = Rig::start("standalone");
    let client = Client::connect(&*server.url).await.unwrap();
    let held = client.fair_lock("a").acquire().await.unwrap();
    let mut waiters = Vec::new();
    for count in 1..=3 {
        let lock = client.fair_lock("a");
        waiters.push(tokio::spawn(async move { lock.acquire().await }));
        eventually("the waiter is in the queue", || {
            json(&server.url, &["inspect", "a"])["servers"][0]["fair_queue"]["length"] == count
        })
        .await;
    }
    let inspected = json(&server.url, &["inspect", "a"]);
    assert_eq!(holds(&inspected)[0]["kind"], "fair_lock");
    let queue = inspected["servers"][0]["fair_queue"]["first"]
        .as_array()
        .unwrap()
        .clone();
    let waited: Vec<u64> = queue
        .iter()
        .map(|waiter| waiter["waited_ms"].as_u64().unwrap())
        .collect();
    assert!(waited.is_sorted_by(|one, other| one >= other), "{waited:?}");
    assert!(
        queue.iter().all(|waiter| waiter["silent_ms"].as_u64().unwrap() < 3_000),
        "{queue:?}"
    );
    let printed = text(&run(&server.url, &["inspect", "a"]));
    assert!(
        printed.contains("fair queue  3 wait") && printed.contains("      3  "),
        "{printed}"
    );
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn several_holders_and_permits_are_shown_one_by_one() {
    let server = Served::start();
    let client = Client::connect(&*server.url).await.unwrap();
    let lock = client.read_write_lock("a");
    let readers = [lock.read.acquire().await.unwrap(), lock.read.acquire().await.unwrap()];
    let permits = client.semaphore("a", 5);
    let some = [permits.acquire(3).await.unwrap(), permits.acquire(1).await.unwrap()];
    let inspected = json(&server.url, &["inspect", "a"]);
    let one = &inspected["servers"][0];
    assert_eq!(
        (&one["readers"], &one["permits"]["held"], &one["permits"]["limit"]),
        (&2.into(), &4.into(), &5.into())
    );
    let permits: Vec<u64> = holds(&inspected)
        .iter()
        .filter_map(|hold| hold["permits"].as_u64())
        .collect();
    assert_eq!(permits.iter().sum::<u64>(), 4, "{inspected}");
    assert_eq!(permits.len(), 2, "{inspected}");
    for lease in readers.into_iter().chain(some) {
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn records_of_other_libraries_are_marked() {
    let server = Rig::start("standalone");
    let node = &server.nodes[0];
    let redisson = "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:53";
    node.run(&["HSET", "redisson", redisson, "2"]);
    node.run(&["PEXPIRE", "redisson", "30000"]);
    node.run(&["SET", "redis-py", "d2c1a5", "PX", "30000"]);
    node.run(&["SET", "text", &"x".repeat(100_000)]);
    node.run(&["RPUSH", "list", "a"]);
    let library = |name| holds(&json(&server.url, &["inspect", name]))[0]["holder"]["library"].clone();
    assert_eq!(library("redisson"), "redisson");
    assert!(text(&run(&server.url, &["inspect", "redisson"])).contains("(Redisson)"));
    assert_eq!(library("redis-py"), "other");
    assert_eq!(library("text"), "other");
    node.run(&["HSET", "two", "name", "a", "mail", "b"]);
    node.run(&["HSET", "one", "visits", "3"]);
    for name in ["list", "two", "one"] {
        let output = run(&server.url, &["inspect", name]);
        assert_eq!(status(&output), 78, "{name}");
        assert!(text(&output).contains("no lock"), "{}", text(&output));
    }
}

#[tokio::test]
async fn a_key_that_is_no_lock_is_refused_and_left_alone() {
    let server = Rig::start("standalone");
    let node = &server.nodes[0];
    node.run(&["HSET", "user", "name", "a", "mail", "b"]);
    let refused: [&[&str]; 6] = [
        &["inspect", "user"],
        &["wait", "user", "--timeout", "0"],
        &["wait", "user", "--kind", "mutex", "--timeout", "0"],
        &["release", "--force", "user"],
        &["release", "--force", "user", "--kind", "lock"],
        &["release", "--force", "user", "--kind", "mutex"],
    ];
    for arguments in refused {
        let output = run(&server.url, arguments);
        assert_eq!(status(&output), 78, "{arguments:?}: {}", errors(&output));
        assert!(
            errors(&output).contains("holds something that is no"),
            "{}",
            errors(&output)
        );
    }
    assert_eq!(node.run(&["HLEN", "user"]), Reply::Int(2));
    // A semaphore of this name has a key of its own.
    let output = run(&server.url, &["wait", "user", "--kind", "semaphore", "--timeout", "0"]);
    assert_eq!(status(&output), 0, "{}", errors(&output));
    let client = Client::connect(&*server.url).await.unwrap();
    let lease = client.semaphore("user", 3).permits(1).acquire().await.unwrap();
    assert_eq!(status(&run(&server.url, &["inspect", "user"])), 0);
    assert_eq!(status(&run(&server.url, &["wait", "user", "--timeout", "0"])), 75);
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_name_is_searched_with_the_key_prefix() {
    let server = Served::start();
    let client = Client::builder()
        .url(&*server.url)
        .key_prefix("shop:")
        .connect()
        .await
        .unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    assert_eq!(status(&run(&server.url, &["inspect", "a"])), 1);
    assert_eq!(status(&run(&server.url, &["inspect", "a", "--key-prefix", "shop:"])), 0);
    assert_eq!(status(&run(&server.url, &["inspect", "shop:a"])), 0);
    lease.release().await.unwrap();
    let arguments = [
        "run",
        "--pass-url",
        "--key-prefix",
        "shop:",
        "a",
        "--",
        env!("CARGO_BIN_EXE_steadlock"),
        "inspect",
        "shop:a",
    ];
    assert_eq!(
        status(&run(&server.url, &arguments)),
        0,
        "the command inspects the lock under which it runs"
    );
}

#[tokio::test]
async fn a_majority_of_several_primaries_is_inspected() {
    let rig = Rig::start("redlock");
    let urls: Vec<String> = rig
        .nodes
        .iter()
        .map(|node| format!("redis://127.0.0.1:{}", node.port))
        .collect();
    let all: Vec<&str> = urls.iter().map(String::as_str).collect();
    let client = Client::redlock(urls.clone()).await.unwrap();
    let lease = client.lock("a").lease(LONG).acquire().await.unwrap();
    // The grant needs only three of the five.
    let granted = || json(&all.join(" "), &["list"])["locks"][0]["primaries"]["granted"].as_u64();
    eventually("all five have the record", || granted() == Some(5)).await;
    // Three of five primaries are left: a majority.
    rig.nodes[0].kill();
    rig.nodes[1].kill();
    let output = command(&all, &["inspect", "a", "--json"]).output().unwrap();
    let inspected: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(inspected["held"], true);
    assert_eq!(inspected["servers"].as_array().unwrap().len(), 3);
    let output = command(&all, &["list", "--json"]).output().unwrap();
    let listing: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let primaries = &listing["locks"][0]["primaries"];
    assert_eq!(
        (&primaries["granted"], &primaries["of"]),
        (&3.into(), &5.into()),
        "{listing}"
    );
    assert_eq!(listing["notes"].as_array().unwrap().len(), 2, "{listing}");
    rig.nodes[2].kill();
    let output = command(&all, &["inspect", "a"]).output().unwrap();
    assert_eq!(status(&output), 69, "{output:?}");
    drop(lease);
}

#[tokio::test]
async fn run_list_and_release_work_with_several_primaries() {
    let rig = Rig::start("redlock");
    let urls: Vec<String> = rig
        .nodes
        .iter()
        .map(|node| format!("redis://127.0.0.1:{}", node.port))
        .collect();
    let all: Vec<&str> = urls.iter().map(String::as_str).collect();
    let mut holder = command(&all, &["run", "a", "--", "sleep", "60"]).spawn().unwrap();
    let run = |arguments: &[&str]| command(&all, arguments).output().unwrap();
    eventually("the lock is held", || status(&run(&["inspect", "a"])) == 0).await;
    let output = run(&["list"]);
    assert!(text(&output).contains("of 5"), "{output:?}");
    assert_eq!(
        text(&output).lines().count(),
        2,
        "one lock, on all primaries: {output:?}"
    );
    let output = run(&["release", "--force", "a"]);
    assert_eq!(status(&output), 0, "{output:?}");
    assert!(text(&output).contains("was taken from"), "{output:?}");
    eventually("the holder has ended", || holder.try_wait().unwrap().is_some()).await;
    assert_eq!(holder.wait().unwrap().code(), Some(74));
    assert_eq!(status(&run(&["inspect", "a"])), 1);
    let output = run(&["wait", "a"]);
    assert_eq!(status(&output), 0, "{output:?}");
}

#[tokio::test]
async fn wait_ends_when_the_lock_is_free_and_not_before() {
    let server = Served::start();
    let client = Client::connect(&*server.url).await.unwrap();
    assert_eq!(status(&run(&server.url, &["wait", "a"])), 0, "the lock is free");
    let lease = client.lock("a").acquire().await.unwrap();
    let output = run(&server.url, &["wait", "a", "--timeout", "0.3"]);
    assert_eq!(status(&output), 75, "{output:?}");
    assert!(errors(&output).contains("still held"), "{output:?}");
    let other = run(&server.url, &["wait", "a", "--kind", "semaphore", "--timeout", "0"]);
    assert_eq!(status(&other), 0, "no permits are held");
    let mut waiting = command(&[&server.url], &["wait", "a", "--interval", "0.02"])
        .spawn()
        .unwrap();
    let before = Instant::now();
    while before.elapsed() < Duration::from_millis(300) {
        assert!(waiting.try_wait().unwrap().is_none(), "the lock is held");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lease.release().await.unwrap();
    eventually("the command ends", || waiting.try_wait().unwrap().is_some()).await;
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
    let waited = json(&server.url, &["wait", "a"]);
    assert_eq!((&waited["name"], &waited["free"]), (&"a".into(), &true.into()));
}

#[tokio::test]
async fn release_needs_force_and_names_the_holder() {
    let server = Served::start();
    let client = Client::connect(&*server.url).await.unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    let holder = client.lock("a").holder().await.unwrap().unwrap();
    let (owner, info) = (holder.owner, holder.client.unwrap());
    let refused = run(&server.url, &["release", "a"]);
    assert_eq!(status(&refused), 2);
    assert!(errors(&refused).contains("--force"), "{refused:?}");
    assert_eq!(status(&run(&server.url, &["inspect", "a"])), 0);
    let output = run(&server.url, &["release", "--force", "a"]);
    assert_eq!(status(&output), 0, "{output:?}");
    assert_eq!(text(&output), format!("a: the lock was taken from {info} ({owner})\n"));
    assert_eq!(status(&run(&server.url, &["inspect", "a"])), 1);
    let lost = lease.extend(None).await.unwrap_err();
    assert!(
        matches!(lost.reason(), Some(LostReason::Removed | LostReason::Expired)),
        "{lost:?}"
    );
    assert_eq!(
        status(&run(&server.url, &["release", "--force", "a"])),
        1,
        "the lock is free"
    );
    assert_eq!(
        status(&run(&server.url, &["release", "--force", "a", "--kind", "mutex"])),
        1
    );
}

#[tokio::test]
async fn release_needs_a_kind_if_several_are_held() {
    let server = Served::start();
    let client = Client::connect(&*server.url).await.unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    let permit = client.semaphore("a", 3).acquire(2).await.unwrap();
    let output = run(&server.url, &["release", "--force", "a"]);
    assert_eq!(status(&output), 78);
    assert!(errors(&output).contains("lock, semaphore"), "{output:?}");
    let released = json(&server.url, &["release", "--force", "a", "--kind", "semaphore"]);
    assert_eq!(
        (&released["kind"], &released["released"]),
        (&"semaphore".into(), &true.into())
    );
    assert!(released["holder"]["owner"].is_string(), "{released}");
    assert!(lease.is_valid());
    drop(permit);
    lease.release().await.unwrap();
}

#[test]
fn each_failure_to_inspect_has_its_exit_status() {
    let server = Served::start();
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let nobody = format!("redis://127.0.0.1:{free}");
    for (url, arguments, expected) in [
        (&*nobody, &["inspect", "a"][..], 69),
        (&nobody, &["list"], 69),
        (&nobody, &["top"], 69),
        (&nobody, &["wait", "a"], 69),
        (&nobody, &["release", "--force", "a"], 69),
        ("", &["inspect", "a"], 78),
        ("memory://", &["list"], 78),
        ("nonsense", &["list"], 78),
        (&server.url, &["inspect", ""], 78),
        (&server.url, &["inspect", "a", "--key-prefix", "*"], 78),
        (&server.url, &["wait", "a", "--timeout", "soon"], 2),
        (&server.url, &["release", "a", "--kind", "spin"], 2),
        (&server.url, &["inspect"], 2),
    ] {
        let output = run(url, arguments);
        assert_eq!(status(&output), expected, "{url} {arguments:?}: {}", errors(&output));
        assert!(!output.stderr.is_empty(), "{arguments:?} says nothing");
    }
}

#[tokio::test]
async fn holders_and_waiters_are_shown_by_the_names_of_their_programs() {
    let server = Served::start();
    let connect = async |prefix: &str, label: &str| {
        let builder = Client::builder()
            .url(&*server.url)
            .key_prefix(prefix)
            .client_label(label);
        builder.connect().await.unwrap()
    };
    let (holder, other) = (connect("shop:", "blue").await, connect("", "green").await);
    let silent = Client::builder().url(&*server.url).without_client_info();
    let silent = silent.connect().await.unwrap();
    let fair = holder.fair_lock("a").acquire().await.unwrap();
    let next = other.fair_lock("shop:a");
    let waiter = tokio::spawn(async move { next.acquire().await });
    let unnamed = silent.lock("b").acquire().await.unwrap();
    let pid = std::process::id();
    let waits = || json(&server.url, &["inspect", "shop:a"])["servers"][0]["fair_queue"]["length"] == 1;
    eventually("the waiter is in the queue", waits).await;

    let inspected = json(&server.url, &["inspect", "shop:a"]);
    let info = &inspected["servers"][0]["holds"][0]["holder"]["info"];
    assert_eq!(
        (&info["pid"], &info["label"]),
        (&pid.into(), &"blue".into()),
        "{inspected}"
    );
    assert_eq!(info["language"], "rust");
    assert!(
        info["host"].as_str().is_some_and(|host| !host.is_empty()),
        "{inspected}"
    );
    let waiting = &inspected["servers"][0]["fair_queue"]["first"][0]["owner"]["info"];
    assert_eq!(waiting["label"], "green", "{inspected}");
    // With the key prefix, the name that the program uses has the same result.
    let inspected = text(&run(&server.url, &["inspect", "a", "--key-prefix", "shop:"]));
    assert!(inspected.contains(&format!("(blue), pid {pid} on ")), "{inspected}");

    let listed = json(&server.url, &["list"]);
    let infos: Vec<_> = listed["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| &lock["holder"]["info"])
        .collect();
    assert_eq!(
        (&infos[0]["label"], infos[0].is_null()),
        (&Value::Null, true),
        "b: {listed}"
    );
    assert_eq!(infos[1]["label"], "blue", "shop:a: {listed}");
    let top = text(&run(&server.url, &["top", "--once"]));
    assert!(top.contains(&format!("(blue), pid {pid} on ")), "{top}");
    waiter.abort();
    fair.release().await.unwrap();
    unnamed.release().await.unwrap();
}
