//! The spans of waits and holds that a client creates with `tracing`.
#![cfg(feature = "tracing")]

#[allow(dead_code, unreachable_pub, reason = "a subscriber has more than its tests read")]
#[path = "support/spans.rs"]
mod span;
mod support;

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use span::{RecordedSpan, Spans};
use steadlock::{Client, LostReason, OnUnavailable, ReleaseOutcome, blocking};
use support::Server;
use tracing::{Instrument as _, Level, info_span};

const WAIT: &str = "steadlock.wait";
const HOLD: &str = "steadlock.hold";
const OUTCOME: &str = "steadlock.outcome";
const ERROR: Option<&str> = Some("ERROR");

async fn connected(server: &Server) -> Client {
    Client::connect(server.url()).await.unwrap()
}

/// Waits until the spans of this name are closed, and returns their outcomes in the order in which they began.
fn outcomes(spans: &Spans, name: &str) -> Vec<String> {
    let closed = spans.closed(name);
    closed
        .iter()
        .map(|span| {
            assert_eq!(span.closed, 1, "{span:#?}");
            span.field(OUTCOME).unwrap().to_owned()
        })
        .collect()
}

fn status(span: &RecordedSpan) -> Option<&str> {
    span.field("otel.status_code")
}

#[tokio::test]
async fn a_lock_that_is_granted_and_released_has_a_span_of_each() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    let client = connected(&server).await;
    let lease = client.lock("stock").acquire().await.unwrap();
    let (wait, hold) = (spans.one(WAIT), spans.one(HOLD));
    assert_eq!((wait.closed, hold.closed), (1, 0), "the lock is held");
    let token = lease.token().unwrap().to_string();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    let hold = spans.closed(HOLD).remove(0);
    for span in [&wait, &hold] {
        assert_eq!((span.target, span.level), ("steadlock", Level::INFO));
        assert_eq!(span.field("steadlock.kind"), Some("lock"));
        assert_eq!(span.field("steadlock.lock"), Some("stock"));
        assert_eq!(span.parent, None);
        assert_eq!(status(span), None);
    }
    assert_eq!(wait.field(OUTCOME), Some("granted"));
    assert_eq!(hold.field(OUTCOME), Some("released"));
    assert_eq!(hold.field("steadlock.token"), Some(token.as_str()));
    assert_eq!(hold.field("steadlock.degraded"), None);
    client.close().await;
    assert_eq!(outcomes(&spans, HOLD), ["released"]);
}

#[tokio::test]
async fn the_fields_of_both_are_those_of_the_table() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    drop(connected(&server).await.lock("a").acquire().await.unwrap());
    let table = include_str!("../../../ci/api/metrics.json");
    let table: serde_json::Value = serde_json::from_str(table).unwrap();
    let listed = table["spans"].as_array().unwrap();
    assert_eq!(listed.len(), 2);
    for listed in listed {
        let span = spans.one(listed["name"].as_str().unwrap());
        let attributes = listed["attributes"].as_array().unwrap().iter();
        let attributes: BTreeSet<&str> = attributes.map(|name| name.as_str().unwrap()).collect();
        let mut declared = span.declared;
        assert!(declared.remove("otel.status_code"));
        assert_eq!(declared, attributes);
    }
}

#[tokio::test]
async fn both_are_children_of_the_span_in_which_the_caller_asks() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    let client = connected(&server).await;
    let (first, second) = (info_span!("first"), info_span!("second"));
    let (a, b) = (client.lock("a"), client.lock("b"));
    let (a, b) = tokio::join!(
        a.acquire().instrument(first.clone()),
        b.acquire().instrument(second.clone())
    );
    // The release happens inside another span.
    let elsewhere = info_span!("elsewhere");
    a.unwrap().release().instrument(elsewhere).await.unwrap();
    b.unwrap().release().await.unwrap();
    for name in [WAIT, HOLD] {
        for span in spans.closed(name) {
            let caller = if span.field("steadlock.lock") == Some("a") {
                &first
            } else {
                &second
            };
            assert_eq!(span.parent, caller.id().map(|id| id.into_u64()), "{span:#?}");
        }
        assert_eq!(spans.named(name).len(), 2);
    }
}

#[tokio::test]
async fn a_hold_is_linked_to_its_wait() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    let client = connected(&server).await;
    let held = client.lock("a").acquire().await.unwrap();
    let (caller, lock) = (info_span!("caller"), client.lock("a"));
    let mut waiting = pin!(lock.acquire());
    let mut context = Context::from_waker(Waker::noop());
    let first_poll = caller.in_scope(|| waiting.as_mut().poll(&mut context));
    assert!(first_poll.is_pending());
    held.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    for name in [WAIT, HOLD] {
        let named = spans.named(name);
        assert_eq!(named[1].parent, caller.id().map(|id| id.into_u64()));
    }
}

#[tokio::test]
async fn a_wait_for_another_owner_times_out_or_is_cancelled() {
    let (server, spans) = (Server::memory(), Spans::default());
    let client = connected(&server).await;
    let held = client.lock("a").acquire().await.unwrap();
    let _guard = spans.listen();
    client
        .lock("a")
        .wait(Duration::from_millis(250))
        .acquire()
        .await
        .unwrap_err();
    assert!(client.lock("a").try_acquire().await.unwrap().is_none());
    {
        let lock = client.lock("a");
        let mut waiting = pin!(lock.acquire());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert_eq!(spans.named(WAIT).len(), 3);
        assert_eq!(spans.named(WAIT)[2].closed, 0);
    }
    assert_eq!(outcomes(&spans, WAIT), ["timed_out", "timed_out", "cancelled"]);
    let is_failure = |span: &RecordedSpan| status(span).is_some() || span.field("error.type").is_some();
    assert!(!spans.all().iter().any(is_failure), "{:#?}", spans.all());
    assert!(spans.named(HOLD).is_empty());
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_future_that_was_never_polled_has_no_span() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    let client = connected(&server).await;
    drop(client.lock("a").acquire());
    assert!(spans.all().is_empty());
}

#[tokio::test]
async fn a_forced_release_ends_a_hold_as_lost_once() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    let lease = Duration::from_millis(600);
    let client = Client::builder()
        .url(server.url())
        .lease(lease)
        .connect()
        .await
        .unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    let inner = client.lock("a").within(&lease).acquire().await.unwrap();
    server.run(&["DEL", "a"]);
    assert_eq!(lease.lost().await, LostReason::Removed);
    assert_eq!(spans.named(HOLD)[0].closed, 1, "the span ends before the report");
    assert_eq!(inner.lost().await, LostReason::Removed);
    let _ = inner.release().await;
    let _ = lease.release().await;
    client.close().await;
    assert_eq!(outcomes(&spans, HOLD), ["lost", "lost"]);
    for span in spans.named(HOLD) {
        assert_eq!(span.field("steadlock.reason"), Some("removed"));
        assert_eq!(status(&span), ERROR);
    }
}

#[tokio::test]
async fn a_release_that_finds_the_lease_stolen_says_so() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    let client = connected(&server).await;
    let lease = client.mutex("a").acquire().await.unwrap();
    server.run(&["SET", "a", "another", "PX", "30000"]);
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Stolen);
    let hold = spans.closed(HOLD).remove(0);
    assert_eq!((hold.field(OUTCOME), status(&hold)), (Some("stolen"), ERROR));
    assert_eq!(hold.field("steadlock.reason"), Some("stolen"));
}

#[tokio::test]
async fn a_hold_that_ends_as_requested_is_no_error() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    let client = connected(&server).await;
    let bounded = client
        .lock("a")
        .max_hold(Duration::from_millis(100))
        .acquire()
        .await
        .unwrap();
    assert_eq!(bounded.lost().await, LostReason::MaxHold);
    let kept = client.lock("b").acquire().await.unwrap();
    client.close().await;
    assert_eq!(outcomes(&spans, HOLD), ["lost", "lost"]);
    let holds = spans.named(HOLD);
    assert_eq!(holds[0].field("steadlock.reason"), Some("max_hold"));
    assert_eq!(holds[1].field("steadlock.reason"), Some("closed"));
    assert!(holds.iter().all(|span| status(span).is_none()));
    assert_eq!(kept.lost_reason(), Some(LostReason::Closed));
}

#[tokio::test]
async fn the_hold_of_a_dropped_lease_lasts_until_its_release_is_answered() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    let client = connected(&server).await;
    drop(client.lock("a").acquire().await.unwrap());
    assert_eq!(outcomes(&spans, HOLD), ["released"]);
    assert!(!server.exists("a"));
}

#[tokio::test]
async fn each_entry_of_a_holder_is_a_hold_of_its_own() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    let client = connected(&server).await;
    let outer = client.lock("a").acquire().await.unwrap();
    let inner = client.lock("a").within(&outer).acquire().await.unwrap();
    inner.release().await.unwrap();
    let holds = spans.named(HOLD);
    assert_eq!(holds.iter().map(|span| span.closed).collect::<Vec<_>>(), [0, 1]);
    outer.release().await.unwrap();
    assert_eq!(outcomes(&spans, HOLD), ["released", "released"]);
    assert_eq!(outcomes(&spans, WAIT), ["granted", "granted"]);
}

#[tokio::test]
async fn every_kind_has_both_and_a_name_shows_no_secret() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    let client = connected(&server).await;
    let read_write = client.read_write_lock("d");
    let together = client.multi_lock([&client.lock("f"), &client.mutex("g")]);
    for lock in [
        client.lock("redis://me:sesame@host"),
        client.mutex("b"),
        client.fair_lock("c"),
        read_write.read,
        read_write.write,
        client.semaphore("e", 3).permits(2),
        together,
    ] {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    client
        .semaphore("e", 3)
        .acquire(1)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let shown = [
        ("lock", "redis://…@host"),
        ("mutex", "b"),
        ("fair_lock", "c"),
        ("read_lock", "d"),
        ("write_lock", "d"),
        ("semaphore", "e"),
        ("multi_lock", "f, g"),
        ("semaphore", "e"),
    ];
    for name in [WAIT, HOLD] {
        let closed = spans.closed(name);
        let recorded: Vec<_> = closed
            .iter()
            .map(|span| {
                (
                    span.field("steadlock.kind").unwrap(),
                    span.field("steadlock.lock").unwrap(),
                )
            })
            .collect();
        assert_eq!(recorded, shown);
    }
    assert!(!format!("{:?}", spans.all()).contains("sesame"));
}

#[tokio::test]
async fn a_wait_that_fails_names_its_error() {
    let (server, spans) = (Server::memory(), Spans::default());
    let _guard = spans.listen();
    let client = connected(&server).await;
    client.lock("").acquire().await.unwrap_err();
    server.run(&["SET", "text", "no lock"]);
    client.lock("text").try_acquire().await.unwrap_err();
    client.close().await;
    client.lock("a").acquire().await.unwrap_err();
    assert_eq!(outcomes(&spans, WAIT), ["refused", "misconfigured", "closed"]);
    let waits = spans.named(WAIT);
    let errors: Vec<_> = waits.iter().map(|span| span.field("error.type").unwrap()).collect();
    assert_eq!(errors, ["InvalidArgument", "Misconfigured", "Closed"]);
    assert!(waits.iter().all(|span| status(span) == ERROR));
    assert!(spans.named(HOLD).is_empty());
}

#[tokio::test]
async fn without_its_server_a_lock_is_skipped_or_granted_locally() {
    let spans = Spans::default();
    let _guard = spans.listen();
    let client = Client::builder()
        .url("redis://127.0.0.1:1")
        .lazy()
        .breaker(1, Duration::from_secs(600))
        .connect()
        .await
        .unwrap();
    let lock = client.lock("a");
    lock.clone().wait(Duration::from_secs(1)).acquire().await.unwrap_err();
    let skipping = lock.clone().on_unavailable(OnUnavailable::Skip);
    assert!(skipping.try_acquire().await.unwrap().is_none());
    assert!(skipping.acquire().await.unwrap_err().is_skipped());
    let local = lock.on_unavailable(OnUnavailable::Local).acquire().await.unwrap();
    assert!(local.is_degraded());
    assert_eq!(spans.one(HOLD).field("steadlock.degraded"), Some("true"));
    assert_eq!(spans.one(HOLD).field("steadlock.token"), None);
    local.release().await.unwrap();
    assert_eq!(
        outcomes(&spans, WAIT),
        ["unavailable", "skipped", "skipped", "degraded"]
    );
    let waits = spans.named(WAIT);
    assert_eq!(waits[0].field("error.type"), Some("Unavailable"));
    let statuses: Vec<_> = waits.iter().map(status).collect();
    assert_eq!(statuses, [ERROR, None, None, None]);
}

#[test]
fn blocking_callers_have_the_same_spans() {
    let (server, spans) = (Server::memory(), Spans::default());
    let client = blocking::Client::connect(server.url()).unwrap();
    let _guard = spans.listen();
    let caller = info_span!("caller");
    let lease = caller.in_scope(|| client.lock("a").acquire()).unwrap();
    let refused = caller.in_scope(|| client.lock("a").wait(Duration::from_millis(250)).acquire());
    refused.unwrap_err();
    assert!(client.lock("a").try_acquire().unwrap().is_none());
    thread::scope(|scope| scope.spawn(|| lease.release().unwrap()).join().unwrap());
    let permits = client.semaphore("e", 3);
    permits.try_acquire(2).unwrap().unwrap().release().unwrap();
    assert_eq!(outcomes(&spans, WAIT), ["granted", "timed_out", "timed_out", "granted"]);
    assert_eq!(outcomes(&spans, HOLD), ["released", "released"]);
    let caller = caller.id().map(|id| id.into_u64());
    let parents = |name| spans.named(name).iter().map(|span| span.parent).collect::<Vec<_>>();
    assert_eq!(parents(WAIT), [caller, caller, None, None]);
    assert_eq!(parents(HOLD), [caller, None]);
}

#[tokio::test]
async fn a_subscriber_that_refuses_spans_gets_none() {
    let (server, spans) = (Server::memory(), Spans::refusing());
    let _guard = spans.listen();
    let client = connected(&server).await;
    let caller = info_span!("caller");
    let lease = client.lock("a").acquire().instrument(caller).await.unwrap();
    assert_eq!(spans.closed("caller").len(), 1, "the caller's span is closed");
    lease.release().await.unwrap();
    assert_eq!(spans.all().len(), 1);
}

#[tokio::test]
async fn a_panicking_subscriber_does_not_end_the_engine() {
    let (server, spans) = (Server::memory(), Spans::broken());
    let _guard = spans.listen();
    let client = connected(&server).await;
    for _ in 0..2 {
        let lease = client.lock("a").acquire().await.unwrap();
        let released = tokio::time::timeout(Duration::from_secs(10), lease.release()).await;
        assert_eq!(released.expect("an answer").unwrap(), ReleaseOutcome::Released);
    }
    assert_eq!(spans.closed(HOLD).len(), 2);
}
