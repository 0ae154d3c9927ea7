//! Errors that last longer than a lease, and messages of calls that fail at once.

use std::time::{Duration, Instant};

use redis::Value;
use steadlock::{Client, ErrorKind, LostReason};

use crate::support::{Redis, eventually};

#[tokio::test]
async fn refused_renewals_lose_a_lease_at_its_deadline_and_not_earlier() {
    let server = Redis::start();
    let client = Client::builder().url(server.url()).lease(Duration::from_millis(1_500));
    let lease = client.connect().await.unwrap().lock("a").acquire().await.unwrap();
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let deadline = Instant::now() + lease.remaining();
    while lease.is_valid() {
        assert_eq!(lease.lost_reason(), None);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(Instant::now() >= deadline);
    let reason = tokio::time::timeout(Duration::from_secs(5), lease.lost())
        .await
        .unwrap();
    assert_eq!(reason, LostReason::Expired);
}

#[tokio::test]
async fn the_error_of_a_call_without_a_connection_does_not_report_a_missing_answer() {
    let mut server = Redis::start();
    let client = Client::builder()
        .url(server.url())
        .command_timeout(Duration::from_millis(300));
    let client = client.connect().await.unwrap();
    let held = client.lock("held").acquire().await.unwrap();
    server.stop();
    // The first calls may fail because the connection is just closing.
    let wait_for_message = async {
        loop {
            let error = client.lock("a").try_acquire().await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(!error.message().contains("did not answer"), "{error}");
            if error.message().contains("not connected (") {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(5), wait_for_message)
        .await
        .unwrap();
    for error in [
        client.lock("a").try_acquire().await.map(drop).unwrap_err(),
        client
            .lock("a")
            .wait(Duration::from_millis(100))
            .acquire()
            .await
            .map(drop)
            .unwrap_err(),
        client.lock("a").is_locked().await.map(drop).unwrap_err(),
        held.extend(Some(Duration::from_secs(40))).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(!error.message().contains("did not answer"), "{error}");
        assert!(error.message().contains("not connected ("), "{error}");
        let port = server.port.to_string();
        assert!(error.node().is_some_and(|node| node.contains(&port)), "{error}");
        assert_eq!(error.to_string().matches(&port).count(), 1, "{error}");
        assert!(error.is_retryable());
    }
}

#[tokio::test]
async fn the_error_of_a_silent_server_reports_a_missing_answer() {
    let server = Redis::start();
    let client = Client::builder()
        .url(server.url())
        .command_timeout(Duration::from_secs(2));
    let client = client.connect().await.unwrap();
    server.pause();
    let (one, other) = (client.lock("a"), client.lock("b").wait(Duration::from_millis(100)));
    let held = client.lock("c");
    let (once, waited, asked) = tokio::join!(one.try_acquire(), other.acquire(), held.is_locked());
    for error in [
        once.map(drop).unwrap_err(),
        waited.map(drop).unwrap_err(),
        asked.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let cause = error.cause().unwrap_or_default();
        assert!(cause.starts_with("the server did not answer within"), "{error}");
        assert!(
            !cause.contains("check") && error.message().contains("check that it is up"),
            "{error}"
        );
    }
    server.resume();
}

#[tokio::test]
async fn fair_waiters_keep_their_places_on_a_full_server() {
    let server = Redis::start();
    let client = Client::connect(server.url()).await.unwrap();
    let held = client.fair_lock("a").acquire().await.unwrap();
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut waiters = Vec::new();
    for number in 1..=3 {
        let waiter = Client::connect(server.url()).await.unwrap();
        waiters.push(tokio::spawn(async move {
            let lease = waiter.fair_lock("a").acquire().await?;
            let served = Instant::now();
            lease.release().await.map(|_| served)
        }));
        eventually("the waiter is in the queue", Duration::from_secs(5), || {
            let mut connection = server.connection();
            redis::cmd("ZCARD")
                .arg("steadlock:{a}:fair")
                .query::<Value>(&mut connection)
                .unwrap()
                == Value::Int(number)
        })
        .await;
    }
    held.release().await.unwrap();
    let mut served = Vec::new();
    for waiter in waiters {
        served.push(waiter.await.unwrap().unwrap());
    }
    assert!(served.is_sorted(), "{served:?}");
}
