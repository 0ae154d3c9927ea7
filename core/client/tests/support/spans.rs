//! A subscriber of `tracing` that records every span.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_core::span::Current;

thread_local! {
    /// The spans that this thread has entered, each with its metadata.
    static ENTERED: RefCell<Vec<(Id, &'static Metadata<'static>)>> = const { RefCell::new(Vec::new()) };
}

/// A recorded span.
#[derive(Clone, Debug)]
pub struct RecordedSpan {
    pub id: u64,
    pub name: &'static str,
    pub target: &'static str,
    pub level: Level,
    pub parent: Option<u64>,
    /// The names of the fields that it declares.
    pub declared: BTreeSet<&'static str>,
    pub fields: BTreeMap<&'static str, String>,
    /// The number of its handles.
    handles: usize,
    /// The number of times it was closed.
    pub closed: usize,
    metadata: &'static Metadata<'static>,
}

impl RecordedSpan {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

impl Visit for RecordedSpan {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

#[derive(Clone, Default)]
pub struct Spans {
    spans: Arc<(Mutex<Vec<RecordedSpan>>, Condvar)>,
    /// Whether the subscriber refuses the spans of this crate.
    is_refusing: bool,
    /// Whether the subscriber panics on the engine's thread.
    is_broken: bool,
}

impl Spans {
    /// Returns a subscriber that refuses the spans of this crate.
    pub fn refusing() -> Self {
        Self {
            is_refusing: true,
            ..Self::default()
        }
    }

    /// Returns a subscriber that panics on the engine's thread.
    pub fn broken() -> Self {
        Self {
            is_broken: true,
            ..Self::default()
        }
    }

    /// Records the spans of this thread until the guard is dropped.
    pub fn listen(&self) -> DefaultGuard {
        tracing::subscriber::set_default(self.clone())
    }

    pub fn all(&self) -> Vec<RecordedSpan> {
        self.lock().clone()
    }

    /// Returns the spans of this name, in the order in which they began.
    pub fn named(&self, name: &str) -> Vec<RecordedSpan> {
        self.all().into_iter().filter(|span| span.name == name).collect()
    }

    /// Returns the only span of this name.
    pub fn one(&self, name: &str) -> RecordedSpan {
        let mut named = self.named(name);
        assert_eq!(named.len(), 1, "{named:#?}");
        named.remove(0)
    }

    /// Waits until every span of this name is closed, and returns them.
    pub fn closed(&self, name: &str) -> Vec<RecordedSpan> {
        let (spans, changed) = &*self.spans;
        let is_open = |spans: &mut Vec<RecordedSpan>| spans.iter().any(|span| span.name == name && span.closed == 0);
        let (spans, waited) = changed
            .wait_timeout_while(spans.lock().unwrap(), Duration::from_secs(10), is_open)
            .unwrap();
        assert!(!waited.timed_out(), "{name} is still open: {spans:#?}");
        drop(spans);
        self.named(name)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RecordedSpan>> {
        self.spans.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, id: &Id, change: impl FnOnce(&mut RecordedSpan) -> T) -> T {
        let mut spans = self.lock();
        let place = usize::try_from(id.into_u64()).unwrap() - 1;
        let result = change(&mut spans[place]);
        self.spans.1.notify_all();
        result
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && !(self.is_refusing && metadata.target() == "steadlock")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let metadata = attributes.metadata();
        let current = || ENTERED.with_borrow(|entered| entered.last().map(|(id, _)| id.clone()));
        let parent = match attributes.parent() {
            Some(parent) => Some(parent.clone()),
            None if attributes.is_contextual() => current(),
            None => None,
        };
        let mut spans = self.lock();
        let id = Id::from_u64(spans.len() as u64 + 1);
        let mut new = RecordedSpan {
            id: id.into_u64(),
            name: metadata.name(),
            target: metadata.target(),
            level: *metadata.level(),
            parent: parent.map(|parent| parent.into_u64()),
            declared: metadata.fields().iter().map(|field| field.name()).collect(),
            fields: BTreeMap::new(),
            handles: 1,
            closed: 0,
            metadata,
        };
        attributes.record(&mut new);
        spans.push(new);
        id
    }

    fn record(&self, id: &Id, record: &Record<'_>) {
        if self.is_broken && thread::current().name() == Some("steadlock-engine") {
            panic!("a defect of the subscriber");
        }
        self.change(id, |span| {
            assert_eq!(span.closed, 0, "{span:?}");
            record.record(span);
        });
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        let metadata = self.change(id, |span| span.metadata);
        ENTERED.with_borrow_mut(|entered| entered.push((id.clone(), metadata)));
    }

    fn exit(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.retain(|(entered, _)| entered != id));
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.change(id, |span| span.handles += 1);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        self.change(&id, |span| {
            span.handles -= 1;
            span.closed += usize::from(span.handles == 0);
            span.handles == 0
        })
    }

    fn current_span(&self) -> Current {
        let current = ENTERED.with_borrow(|entered| entered.last().cloned());
        current.map_or_else(Current::none, |(id, metadata)| Current::new(id, metadata))
    }
}
