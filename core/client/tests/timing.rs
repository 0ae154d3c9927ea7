//! Tests of promises in milliseconds. These tests must run alone, because a busy machine is late by itself.
//!
//! Run them in one thread: `cargo test -p steadlock --test timing -- --test-threads=1`

mod support;

use std::time::{Duration, Instant};

use steadlock::{Client, ErrorKind, LostReason};
use steadlock_protocol::Reply;
use support::{Redis, eventually};

const LEASE: Duration = Duration::from_secs(1);

async fn connect(server: &Redis) -> Client {
    Client::builder()
        .url(server.url())
        .lease(LEASE)
        .connect()
        .await
        .unwrap()
}

/// Returns the remaining time of a lock's record on the server.
fn ttl(server: &Redis, key: &str) -> Duration {
    match server.run(&["PTTL", key]) {
        Reply::Int(ms) => Duration::from_millis(u64::try_from(ms).expect("a TTL")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_waiter_of_another_client_is_woken_by_a_message() {
    let server = Redis::start();
    let (ours, theirs) = (connect(&server).await, connect(&server).await);
    let mut times = Vec::new();
    for _ in 0..21 {
        let held = ours.lock("a").acquire().await.unwrap();
        let calls = server.calls("evalsha");
        let lock = theirs.lock("a");
        let waiter = tokio::spawn(async move {
            let lease = lock.acquire().await.unwrap();
            (Instant::now(), lease)
        });
        // The first waiter is refused, subscribes, and is refused once more before it sleeps. Later waiters are refused
        // once, because the client is still subscribed.
        let refusals = if times.is_empty() { 2 } else { 1 };
        eventually("the waiter waits", Duration::from_secs(5), || {
            server.calls("evalsha") >= calls + refusals
        })
        .await;
        let released = Instant::now();
        held.release().await.unwrap();
        let (woken, lease) = waiter.await.unwrap();
        times.push(woken - released);
        lease.release().await.unwrap();
    }
    times.sort_unstable();
    assert!(times[10] < Duration::from_millis(50), "{times:?}");
}

#[tokio::test]
async fn without_messages_a_waiter_acquires_within_a_second() {
    let server = Redis::start();
    // This lock is released by hand, so no notification is published.
    let client = Client::connect(server.url()).await.unwrap();
    server.run(&["HSET", "a", "00000000-0000-4000-8000-000000000002:1", "1"]);
    server.run(&["PEXPIRE", "a", "3600000"]);
    let lock = client.lock("a");
    let waiter = tokio::spawn(async move { lock.acquire().await.map(|lease| (Instant::now(), lease)) });
    eventually("the waiter waits", Duration::from_secs(5), || {
        server.calls("evalsha") >= 2
    })
    .await;
    let released = Instant::now();
    server.run(&["DEL", "a"]);
    let (woken, _lease) = waiter.await.unwrap().unwrap();
    assert!(woken - released < Duration::from_secs(1), "{:?}", woken - released);
}

#[tokio::test]
async fn a_bounded_wait_ends_in_time_also_when_the_server_is_stopped() {
    let server = Redis::start();
    let client = connect(&server).await;
    let held = Client::connect(server.url()).await.unwrap();
    let _held = held.lock("a").acquire().await.unwrap();
    for paused in [false, true] {
        if paused {
            server.pause();
        }
        for wait in [10, 100, 700].map(Duration::from_millis) {
            let start = Instant::now();
            let error = client.lock("a").wait(wait).acquire().await.unwrap_err();
            let took = start.elapsed();
            let expected = if paused {
                ErrorKind::Unavailable
            } else {
                ErrorKind::LockTimeout
            };
            assert_eq!(error.kind(), expected, "{error}");
            assert!(
                took >= wait && took < wait + Duration::from_millis(50),
                "{wait:?} took {took:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_single_attempt_ends_within_the_command_timeout() {
    let server = Redis::start();
    let timeout = Duration::from_millis(400);
    let client = Client::builder()
        .url(server.url())
        .command_timeout(timeout)
        .connect()
        .await
        .unwrap();
    server.pause();
    let start = Instant::now();
    let error = client.lock("a").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        start.elapsed() < timeout + Duration::from_millis(50),
        "{:?}",
        start.elapsed()
    );
    server.resume();
    // If the attempt was granted in the meantime, the client releases it.
    eventually("nothing stays behind", Duration::from_secs(5), || {
        server.run(&["EXISTS", "a"]) == Reply::Int(0)
    })
    .await;
}

#[tokio::test]
async fn a_stopped_server_makes_a_lease_lost_before_its_record_expires() {
    let server = Redis::start();
    let client = connect(&server).await;
    for round in 0..3 {
        let lease = client.lock(format!("a{round}")).acquire().await.unwrap();
        // Each round begins at another moment between two renewals.
        tokio::time::sleep(Duration::from_millis(150 * round)).await;
        let (read, left) = (Instant::now(), ttl(&server, &format!("a{round}")));
        server.pause();
        let reason = tokio::time::timeout(Duration::from_secs(5), lease.lost())
            .await
            .unwrap();
        assert_eq!(reason, LostReason::Expired);
        assert!(!lease.is_valid());
        assert!(read.elapsed() < left, "{:?} of {left:?}", read.elapsed());
        server.resume();
    }
}

#[tokio::test]
async fn a_removed_record_is_noticed_within_a_third_of_the_lease_and_half_a_second() {
    let server = Redis::start();
    let client = connect(&server).await;
    for (round, removal) in [
        &["DEL", "a0"][..],
        &["FLUSHALL"],
        &[
            "EVAL",
            "redis.call('DEL', KEYS[1]); redis.call('HSET', KEYS[1], 'x:1', '1')",
            "1",
            "a2",
        ],
    ]
    .iter()
    .enumerate()
    {
        let lease = client.lock(format!("a{round}")).acquire().await.unwrap();
        server.run(removal);
        let removed = Instant::now();
        lease.lost().await;
        assert!(
            removed.elapsed() < LEASE / 3 + Duration::from_millis(500),
            "{:?}",
            removed.elapsed()
        );
    }
}

#[tokio::test]
async fn a_thousand_auto_renewed_locks_are_held_for_five_leases() {
    let server = Redis::start();
    let client = connect(&server).await;
    let mut leases = Vec::new();
    for number in 0..1_000 {
        leases.push(client.lock(format!("name-{number}")).acquire().await.unwrap());
    }
    let start = Instant::now();
    while start.elapsed() < 5 * LEASE {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let lost: Vec<_> = leases
            .iter()
            .filter(|lease| !lease.is_valid())
            .map(|lease| lease.lost_reason())
            .collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}

#[tokio::test]
async fn nothing_is_renewed_after_an_unlock() {
    let server = Redis::start();
    let client = connect(&server).await;
    let leases = [
        client.lock("a").acquire().await.unwrap(),
        client.lock("b").acquire().await.unwrap(),
    ];
    eventually("both leases were renewed", Duration::from_secs(5), || {
        server.calls("evalsha") >= 4
    })
    .await;
    for lease in leases {
        lease.release().await.unwrap();
    }
    let calls = server.calls("evalsha");
    tokio::time::sleep(2 * LEASE).await;
    assert_eq!(server.calls("evalsha"), calls);
}

#[tokio::test]
async fn a_dead_holders_lock_is_free_after_its_lease() {
    let server = Redis::start();
    // The record of a holder that died just after a renewal. No notification is published for it.
    server.run(&["HSET", "a", "00000000-0000-4000-8000-000000000002:1", "1"]);
    server.run(&["PEXPIRE", "a", "1000"]);
    let died = Instant::now();
    let client = connect(&server).await;
    let _lease = client.lock("a").acquire().await.unwrap();
    assert!(
        died.elapsed() < LEASE + Duration::from_millis(600),
        "{:?}",
        died.elapsed()
    );
}

#[tokio::test]
async fn closing_takes_half_a_second_at_most_also_without_a_server() {
    for gone in [false, true] {
        let mut server = Redis::start();
        let client = connect(&server).await;
        let lease = client.lock("a").acquire().await.unwrap();
        if gone {
            server.stop();
        } else {
            server.pause();
        }
        let start = Instant::now();
        client.close().await;
        assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
        assert_eq!(lease.lost_reason(), Some(LostReason::Closed));
    }
}

#[tokio::test]
async fn an_unreachable_server_fails_the_connect_within_its_timeout() {
    let server = Redis::start();
    server.pause();
    let timeout = Duration::from_millis(300);
    let start = Instant::now();
    let error = Client::builder()
        .url(server.url())
        .connect_timeout(timeout)
        .connect()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        start.elapsed() < timeout + Duration::from_millis(50),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn two_clients_take_turns() {
    let server = Redis::start();
    let count_grants = |client: Client, until: Instant| async move {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let lock = client.lock("a");
                tokio::spawn(async move {
                    let mut grants = 0_u32;
                    while Instant::now() < until {
                        lock.acquire().await.unwrap().release().await.unwrap();
                        grants += 1;
                    }
                    grants
                })
            })
            .collect();
        let mut grants = 0;
        for task in tasks {
            grants += task.await.unwrap();
        }
        grants
    };
    let (one, other) = (connect(&server).await, connect(&server).await);
    let until = Instant::now() + Duration::from_secs(3);
    let (first, second) = tokio::join!(count_grants(one, until), count_grants(other, until));
    let share = f64::from(first) / f64::from(first + second);
    assert!((0.35..=0.65).contains(&share), "{first} and {second}");
}

#[tokio::test]
async fn with_a_circuit_breaker_open_an_acquisition_takes_less_than_ten_milliseconds() {
    let server = Redis::start();
    let client = Client::builder()
        .url(server.url())
        .command_timeout(Duration::from_millis(200))
        .breaker(2, Duration::from_secs(1))
        .connect()
        .await
        .unwrap();
    server.pause();
    let is_open = |error: &steadlock::Error| error.to_string().contains("circuit breaker");
    while !client.lock("canary").acquire().await.as_ref().is_err_and(is_open) {}
    // The loop lasts longer than the pause before a probe, because no caller may wait for the probe either.
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < Duration::from_secs(3) {
        let start = Instant::now();
        let error = client.lock("a").acquire().await.expect_err("no server");
        times.push(start.elapsed());
        assert!(is_open(&error), "{error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    times.sort_unstable();
    let most = times[times.len() * 99 / 100];
    assert!(most < Duration::from_millis(10), "{most:?} of {} times", times.len());
}
