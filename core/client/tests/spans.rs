//! The spans of `tracing` of waits and leases.
#![cfg(feature = "tracing")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Client, ErrorKind, blocking};
use support::{Redis, free_port};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, info_span};
use tracing_core::span::Current;

/// A span as it was told of.
#[derive(Clone, Debug, Default)]
struct Told {
    metadata: Option<&'static Metadata<'static>>,
    parent: Option<u64>,
    fields: BTreeMap<String, String>,
    handles: usize,
}

impl Told {
    fn name(&self) -> &'static str {
        self.metadata.unwrap().name()
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<(Vec<Told>, Vec<u64>)>>);

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().into(), format!("{value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut inner = self.0.lock().unwrap();
        let mut told = Told {
            metadata: Some(attributes.metadata()),
            parent: attributes.parent().map(Id::into_u64),
            handles: 1,
            ..Told::default()
        };
        if attributes.is_contextual() {
            told.parent = inner.1.last().copied();
        }
        attributes.record(&mut Fields(&mut told.fields));
        inner.0.push(told);
        Id::from_u64(inner.0.len() as u64)
    }
    fn record(&self, id: &Id, values: &Record<'_>) {
        let at = id.into_u64() as usize - 1;
        values.record(&mut Fields(&mut self.0.lock().unwrap().0[at].fields));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, id: &Id) {
        self.0.lock().unwrap().1.push(id.into_u64());
    }
    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().1.pop();
    }
    fn clone_span(&self, id: &Id) -> Id {
        self.0.lock().unwrap().0[id.into_u64() as usize - 1].handles += 1;
        id.clone()
    }
    fn try_close(&self, id: Id) -> bool {
        let handles = &mut self.0.lock().unwrap().0[id.into_u64() as usize - 1].handles;
        *handles -= 1;
        *handles == 0
    }
    fn current_span(&self) -> Current {
        let inner = self.0.lock().unwrap();
        inner.1.last().map_or_else(Current::none, |id| {
            Current::new(Id::from_u64(*id), inner.0[*id as usize - 1].metadata.unwrap())
        })
    }
}

impl Spans {
    /// What was told since the last time of spans that have ended.
    fn ended(&self) -> Vec<Told> {
        let inner = self.0.lock().unwrap();
        let ours = inner.0.iter().filter(|told| told.name().starts_with("leasehold."));
        let ended: Vec<Told> = ours.cloned().collect();
        assert!(ended.iter().all(|told| told.handles == 0), "{ended:?}");
        ended
    }
}

fn outcomes(ended: &[Told]) -> Vec<(&'static str, &str)> {
    let outcome = |told: &'_ Told| {
        told.fields
            .get("leasehold.outcome")
            .map_or("", String::as_str)
            .to_owned()
    };
    ended
        .iter()
        .map(|told| (told.name(), &*Box::leak(outcome(told).into_boxed_str())))
        .collect()
}

#[test]
fn a_wait_and_a_lease_are_children_of_the_callers_span() {
    let spans = Spans::default();
    tracing::subscriber::with_default(spans.clone(), || {
        let client = blocking::Client::connect("memory://").unwrap();
        let lock = client.lock("redis://user:secret@host");
        let lease = {
            let _request = info_span!("request").entered();
            lock.acquire().unwrap()
        };
        // It ends elsewhere.
        let token = lease.token().unwrap().to_string();
        lease.release().unwrap();
        let ended = spans.ended();
        assert_eq!(
            outcomes(&ended),
            [("leasehold.wait", "granted"), ("leasehold.hold", "released")]
        );
        assert!(ended.iter().all(|told| told.parent == Some(1)), "{ended:?}");
        assert!(ended.iter().all(|told| told.metadata.unwrap().target() == "leasehold"));
        assert_eq!(ended[1].field("leasehold.token"), Some(&*token));
        for told in &ended {
            assert_eq!(told.field("leasehold.kind"), Some("lock"));
            assert_eq!(told.field("leasehold.lock"), Some("redis://…@host"));
            assert_eq!(told.field("otel.status_code"), None);
        }
    });
}

#[test]
fn every_kind_has_them_and_each_entry_its_own() {
    let spans = Spans::default();
    tracing::subscriber::with_default(spans.clone(), || {
        let client = blocking::Client::connect("memory://").unwrap();
        let both = client.read_write_lock("c");
        for lock in [client.mutex("a"), client.fair_lock("b"), both.read, both.write] {
            lock.acquire().unwrap().release().unwrap();
        }
        client.semaphore("d", 2).acquire(2).unwrap().release().unwrap();
        let several = client.multi_lock(&[client.lock("e"), client.lock("f")]);
        several.try_acquire().unwrap().unwrap().release().unwrap();
        let lock = client.lock("g");
        let outer = lock.acquire().unwrap();
        lock.within(&outer).acquire().unwrap().release().unwrap();
        outer.release().unwrap();
        let kinds: Vec<String> = spans
            .ended()
            .iter()
            .map(|told| told.fields["leasehold.kind"].clone())
            .collect();
        let two = |kind: &str| [kind.to_owned(), kind.to_owned()];
        let expected = [
            "mutex",
            "fair_lock",
            "read_lock",
            "write_lock",
            "semaphore",
            "multi_lock",
            "lock",
            "lock",
        ];
        assert_eq!(kinds, expected.map(two).concat());
    });
}

#[tokio::test]
async fn a_wait_says_how_it_ended() {
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let client = Client::connect("memory://").await.unwrap();
    let lock = client.lock("a");
    let lease = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let waiting = lock.acquire();
    assert!(tokio::time::timeout(Duration::from_millis(20), waiting).await.is_err());
    let refused = client.lock("").acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    drop(lease);
    let ended = spans.ended();
    let words = ["granted", "unknown", "timed_out", "cancelled", "refused"];
    assert_eq!(
        outcomes(&ended).into_iter().map(|(_, word)| word).collect::<Vec<_>>(),
        words
    );
    assert_eq!(ended[4].field("error.type"), Some("InvalidArgument"));
    assert_eq!(ended[4].field("otel.status_code"), Some("ERROR"));
    assert_eq!(ended[3].field("otel.status_code"), None);
}

#[tokio::test]
async fn a_lease_that_is_lost_says_why() {
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let server = Redis::start();
    let client = Client::builder().url(server.url()).lease(Duration::from_millis(300));
    let client = client.connect().await.unwrap();
    let lock = client.lock("a");
    let lease = lock.acquire().await.unwrap();
    client.force_release(&lock).await.unwrap();
    lease.lost().await;
    drop(lease);
    // The first to find it out.
    let lease = lock.clone().lease(Duration::from_secs(60)).acquire().await.unwrap();
    client.force_release(&lock).await.unwrap();
    lease.release().await.unwrap();
    let ended = spans.ended();
    let held: Vec<&Told> = ended.iter().filter(|told| told.name() == "leasehold.hold").collect();
    for (told, (outcome, reason)) in held.into_iter().zip([("lost", "removed"), ("expired", "expired")]) {
        assert_eq!(told.field("leasehold.outcome"), Some(outcome));
        assert_eq!(told.field("leasehold.reason"), Some(reason));
        assert_eq!(told.field("otel.status_code"), Some("ERROR"));
    }
}

#[tokio::test]
async fn what_is_skipped_or_degraded_says_so() {
    use leasehold::OnUnavailable;
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let client = Client::builder()
        .url(format!("redis://127.0.0.1:{}", free_port()))
        .lazy();
    let client = client.breaker(1, Duration::from_secs(60)).connect().await.unwrap();
    let lock = client.lock("a").wait(Duration::from_secs(5));
    lock.acquire().await.unwrap_err();
    assert!(
        lock.clone()
            .on_unavailable(OnUnavailable::Skip)
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let local = lock.on_unavailable(OnUnavailable::Local).acquire().await.unwrap();
    local.release().await.unwrap();
    let ended = spans.ended();
    let words: Vec<&str> = outcomes(&ended).into_iter().map(|(_, word)| word).collect();
    assert_eq!(words, ["unavailable", "skipped", "degraded", "released"]);
    assert_eq!(ended[3].field("leasehold.degraded"), Some("true"));
}
