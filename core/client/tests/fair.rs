//! The fair lock's queue when waiters have died, and when other programs publish arbitrary messages.

mod support;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use steadlock::Client;
use steadlock_protocol::Reply;
use support::{Redis, Server, eventually, on_time};

const QUEUE: &str = "steadlock:{f}:fair";
const ALIVE: &str = "steadlock:{f}:alive";
/// Nearly the largest valid token: tokens are below 2^53.
const LARGEST_TOKEN: u64 = (1 << 53) - 2;

/// Returns the server's time in µs.
fn clock(server: &Server) -> u64 {
    let Reply::Array(parts) = server.run(&["TIME"]) else {
        panic!("TIME gave no time");
    };
    let part = |at: usize| match &parts[at] {
        Reply::Bytes(text) => String::from_utf8_lossy(text).parse::<u64>().unwrap(),
        other => panic!("{other:?}"),
    };
    part(0) * 1_000_000 + part(1)
}

/// Writes the records of `count` waiters whose processes were killed. `seen` is the time, in µs, at which the server
/// last saw them alive.
fn killed_waiters(server: &Server, count: u64, seen: u64) {
    let score = clock(server) - 1_000_000;
    for number in 0..count {
        let owner = format!("00000000-0000-4000-8000-{:012}:{number}", number / 100);
        server.run(&["ZADD", QUEUE, &(score + number).to_string(), &owner]);
        server.run(&["HSET", ALIVE, &owner, &format!("{seen} 1")]);
    }
    for key in [QUEUE, ALIVE] {
        server.run(&["PEXPIRE", key, "30000"]);
    }
}

fn servers() -> [Server; 2] {
    [Server::memory(), Server::redis()]
}

#[tokio::test]
async fn behind_500_killed_waiters_the_next_live_one_is_granted_within_4_seconds() {
    for server in servers() {
        let (one, two) = (connect(&server).await, connect(&server).await);
        let held = one.fair_lock("f").acquire().await.unwrap();
        killed_waiters(&server, 500, clock(&server));
        let start = Instant::now();
        let lock = two.fair_lock("f").wait(Duration::from_secs(30));
        let waiter = tokio::spawn(async move { lock.acquire().await });
        eventually("the live waiter is in the queue", Duration::from_secs(20), || {
            server.run(&["ZCARD", QUEUE]) == Reply::Int(501)
        })
        .await;
        held.release().await.unwrap();
        let lease = waiter.await.unwrap().unwrap();
        let took = start.elapsed();
        assert!(took < on_time(Duration::from_secs(4)), "{took:?}");
        lease.release().await.unwrap();
        one.close().await;
        two.close().await;
    }
}

#[tokio::test]
async fn a_single_attempt_is_granted_when_all_waiters_are_dead() {
    for server in servers() {
        let client = connect(&server).await;
        for count in [1, 32, 33, 400] {
            killed_waiters(&server, count, clock(&server) - 3_100_000);
            let lease = client.fair_lock("f").try_acquire().await.unwrap();
            let lease = lease.unwrap_or_else(|| panic!("not granted behind {count} dead waiters"));
            lease.release().await.unwrap();
        }
        client.close().await;
    }
}

async fn connect(server: &Server) -> Client {
    Client::connect(&server.url()).await.unwrap()
}

/// Publishes 10,000 invented messages on these channels, 100 at a time.
fn publish_forged_messages(redis: &Redis, channels: &[String], waiter: Option<&str>) {
    let mut connection = redis.connection();
    for hundred in 0..100_u64 {
        let mut pipeline = redis::pipe();
        for number in hundred * 100..(hundred + 1) * 100 {
            let channel = &channels[usize::try_from(number).unwrap() % channels.len()];
            let owner = waiter.unwrap_or("somebody:1");
            let payload = match number % 6 {
                0 => "0".to_owned(),
                1 => String::new(),
                2 => "\u{1}\u{2} \u{3} ".repeat(9),
                3 => format!("{owner} 17 {LARGEST_TOKEN}"),
                4 => format!("{owner} {} {}", LARGEST_TOKEN - 1, LARGEST_TOKEN),
                _ => format!("{owner} 9999999999999999999999 x"),
            };
            pipeline.cmd("PUBLISH").arg(channel).arg(payload).ignore();
        }
        pipeline.query::<()>(&mut connection).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_forged_messages_grant_nothing_and_block_nobody() {
    let server = Redis::start();
    let (one, two) = (
        Client::connect(&server.url()).await.unwrap(),
        Client::connect(&server.url()).await.unwrap(),
    );
    for kind in ["lock", "mutex", "fair", "write", "semaphore"] {
        let of = |client: &Client| match kind {
            "lock" => client.lock(kind),
            "mutex" => client.mutex(kind),
            "fair" => client.fair_lock(kind),
            "write" => client.read_write_lock(kind).write,
            _ => client.semaphore(kind, 1).permits(1),
        };
        let held = of(&one).acquire().await.unwrap();
        let lock = of(&two).wait(Duration::from_secs(60));
        let waiter = tokio::spawn(async move { lock.acquire().await });
        let subscribed = |word: &str| match server.run(&["PUBSUB", "CHANNELS", &format!("*{{{kind}}}{word}*")]) {
            Reply::Array(channels) => channels,
            other => panic!("{other:?}"),
        };
        eventually("the client has subscribed", Duration::from_secs(20), || {
            !subscribed("").is_empty()
        })
        .await;
        if kind == "fair" {
            eventually(
                "the client has subscribed to its grants",
                Duration::from_secs(20),
                || !subscribed(":grants:").is_empty(),
            )
            .await;
        }
        let mut channels = vec![];
        for channel in subscribed("") {
            let Reply::Bytes(channel) = channel else {
                panic!("no text")
            };
            channels.push(String::from_utf8(channel).unwrap());
        }
        let owner = match server.run(&["ZRANGE", "steadlock:{fair}:fair", "0", "0"]) {
            Reply::Array(owners) => owners.into_iter().find_map(|owner| match owner {
                Reply::Bytes(owner) => String::from_utf8(owner).ok(),
                _ => None,
            }),
            _ => None,
        };
        assert_eq!(owner.is_some(), kind == "fair");
        let (before, start) = (server.calls("evalsha"), Instant::now());
        publish_forged_messages(&server, &channels, owner.as_deref());
        let calls = server.calls("evalsha") - before;
        let passed = u64::try_from(start.elapsed().as_millis()).unwrap();
        assert!(!waiter.is_finished(), "{kind}: granted while it is held");
        // While messages arrive, a waiter for a permit makes an attempt at most every 16 ms. Other waiters poll.
        let most = if kind == "semaphore" {
            100 + passed / 16
        } else {
            60 + passed / 250
        };
        println!("{kind}: {calls} calls for 10,000 messages");
        assert!(calls <= most, "{kind}: {calls} calls for 10,000 messages");
        let token = held.token().unwrap_or(0);
        let start = Instant::now();
        held.release().await.unwrap();
        let lease = waiter.await.unwrap().unwrap();
        assert!(
            start.elapsed() < on_time(Duration::from_secs(2)),
            "{kind}: {:?}",
            start.elapsed()
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        if let Some(next) = lease.token() {
            assert!(
                next > token && u128::from(next) <= now + 1_000_000,
                "{kind}: {token}, then {next}"
            );
        }
        lease.release().await.unwrap();
    }
    one.close().await;
    two.close().await;
}
