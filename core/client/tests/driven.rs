//! Tests of the client without the feature `native`. The test drives the engine, and the embedded store is the server.
//! Run them by `cargo test --package steadlock --no-default-features --test driven`.
#![cfg(not(feature = "native"))]
#![allow(clippy::unwrap_used, missing_docs, reason = "a test states what must hold")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Wake, Waker};
use std::time::Duration;

use steadlock::host::{
    Acquire, Completion, Driven, Error, ErrorKind, Event, Host, Kind, Lease, LockRef, Op, Operation, Options,
    ServerAddress, clock_micros,
};
use steadlock_protocol::{CallError, Lane, NodeId, Reply, Transmit};
use steadlock_store::{Embedded, Subscriber};

const NODE: NodeId = NodeId(0);

#[derive(Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A client, its engine, and a server. The test passes calls and messages between them.
struct Program {
    host: Host,
    engine: Driven,
    store: Embedded,
    subscriber: Subscriber,
    messages: Receiver<(Vec<u8>, Vec<u8>)>,
    turns_requested: Arc<WakeCounter>,
}

fn options(url: &str) -> Options {
    Options {
        url: Some(url.into()),
        // A waiter that learns of a release only by polling is too late for these tests.
        retry_interval_ms: Some((60_000.0, 60_000.0)),
        ..Options::default()
    }
}

impl Program {
    fn start(store: &Embedded) -> Self {
        let (host, engine) = Host::open_driven(options("redis://user:secret@example:7000/2"), Box::new(|| {})).unwrap();
        let (sender, messages) = channel();
        let subscriber = store.connect(Box::new(move |channel, payload| {
            sender.send((channel.to_vec(), payload.to_vec())).unwrap();
        }));
        Self {
            host,
            engine,
            store: store.clone(),
            subscriber,
            messages,
            turns_requested: Arc::default(),
        }
    }

    fn connected(store: &Embedded) -> Self {
        let mut program = Self::start(store);
        program.connect();
        let events = program.events();
        let first = events.first().unwrap();
        assert!(matches!(
            first,
            Event::Completed {
                request: Host::CONNECT,
                result: Ok(Completion::Connected)
            }
        ));
        program
    }

    fn connect(&mut self) {
        self.engine.lane_opened(NODE, Lane::Renewal);
        self.engine.lane_opened(NODE, Lane::Command);
        self.engine.subscriptions_opened(NODE);
    }

    /// Drives the engine until it has nothing to do, and returns its events.
    fn events(&mut self) -> Vec<Event> {
        let waker = Waker::from(Arc::clone(&self.turns_requested));
        loop {
            let _ = self.engine.turn(&waker);
            let mut is_idle = true;
            while let Some(item) = self.engine.poll_transmit() {
                is_idle = false;
                self.send(item);
            }
            for (channel, message) in self.messages.try_iter() {
                is_idle = false;
                self.engine.message_received(NODE, &channel, message);
            }
            if is_idle {
                break;
            }
        }
        let mut events = Vec::new();
        self.host.drain(&mut events);
        events
    }

    /// Returns the next events, after sleeping until the engine is due if necessary.
    fn later_events(&mut self) -> Vec<Event> {
        let deadline = clock_micros() + 10_000_000;
        loop {
            let events = self.events();
            if !events.is_empty() {
                return events;
            }
            assert!(clock_micros() < deadline, "no event comes");
            let due = self.engine.due().unwrap();
            std::thread::sleep(Duration::from_micros(due.saturating_sub(clock_micros())));
        }
    }

    fn send(&mut self, item: Transmit) {
        match item {
            Transmit::Call(call) => {
                let reply = self.store.run_script(call.script, &call.keys, &call.args);
                let reply = reply.map(Reply::from).map_err(CallError::from);
                self.engine.replied(NODE, call.id, reply);
            }
            Transmit::Subscribe { channel, .. } => {
                self.subscriber.subscribe(&channel);
                self.engine.subscribed(NODE, &channel);
            }
            Transmit::Unsubscribe { channel, .. } => self.subscriber.unsubscribe(&channel),
        }
    }

    /// Runs an operation that needs no other client, and returns its result.
    fn run(&mut self, op: Op) -> Result<Completion, Error> {
        let request = self.host.submit(op);
        only_result(self.events(), request).unwrap()
    }

    fn acquire(&mut self, wait_ms: Option<f64>) -> Op {
        Op::Acquire(Acquire {
            lock: LockRef::One(Kind::Lock, "stock:42".into()),
            wait_ms,
            ..Acquire::default()
        })
    }
}

fn only_result(events: Vec<Event>, wanted: u64) -> Option<Result<Completion, Error>> {
    let mut events = events.into_iter();
    let event = events.next()?;
    assert!(events.next().is_none());
    match event {
        Event::Completed { request, result } => {
            assert_eq!(request, wanted);
            Some(result)
        }
        other => panic!("{other:?}"),
    }
}

fn granted(result: Result<Completion, Error>) -> Arc<Lease> {
    match result {
        Ok(Completion::Granted(lease)) => lease,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lock_is_acquired_and_released() {
    let mut program = Program::connected(&Embedded::new());
    let acquire = program.acquire(Some(0.0));
    let lease = granted(program.run(acquire));
    assert!(lease.is_valid());
    assert!(lease.token().is_some());
    assert!(program.engine.due().is_some(), "the renewal is due");
    let released = program.run(Op::Release { lease: lease.id() });
    assert!(matches!(released, Ok(Completion::Released(_))));
    assert!(lease.is_released());
}

#[test]
fn a_release_message_wakes_a_waiter() {
    let store = Embedded::new();
    let (mut holder, mut waiter) = (Program::connected(&store), Program::connected(&store));
    let acquire = holder.acquire(None);
    let lease = granted(holder.run(acquire.clone()));
    let request = waiter.host.submit(acquire);
    assert!(waiter.events().is_empty());
    holder.run(Op::Release { lease: lease.id() }).unwrap();
    granted(only_result(waiter.later_events(), request).unwrap());
}

#[test]
fn a_command_requests_a_turn() {
    let mut program = Program::connected(&Embedded::new());
    let before = program.turns_requested.0.load(Ordering::Relaxed);
    let acquire = program.acquire(None);
    program.host.submit(acquire);
    assert_eq!(program.turns_requested.0.load(Ordering::Relaxed), before + 1);
}

#[test]
fn the_program_gets_the_address_to_connect_to_and_no_text_shows_the_password() {
    let program = Program::start(&Embedded::new());
    let [server] = program.engine.servers() else { panic!() };
    let address = ServerAddress::Tcp {
        host: "example".into(),
        port: 7000,
        tls: false,
    };
    assert_eq!((&server.address, server.database), (&address, 2));
    assert_eq!(
        (server.username.as_deref(), server.password.as_deref()),
        (Some("user"), Some("secret"))
    );
    assert!(!format!("{:?} {server:?}", program.engine).contains("secret"));
}

#[test]
fn calls_on_a_closed_connection_are_repeated_on_the_next() {
    let mut program = Program::connected(&Embedded::new());
    let acquire = program.acquire(None);
    let request = program.host.submit(acquire);
    assert!(program.engine.turn(Waker::noop()).is_pending());
    assert!(matches!(program.engine.poll_transmit(), Some(Transmit::Call(_))));
    for lane in [Lane::Command, Lane::Renewal] {
        program.engine.lane_closed(NODE, lane, "pulled the plug");
    }
    program.engine.subscriptions_lost(NODE);
    assert!(program.events().is_empty());
    assert!(!program.engine.is_connected());
    program.connect();
    granted(only_result(program.later_events(), request).unwrap());
}

#[test]
fn a_connection_that_cannot_be_opened_fails_every_operation() {
    let mut program = Program::start(&Embedded::new());
    let cause = Error::new(ErrorKind::Misconfigured, Operation::Connect, "no such user");
    program.engine.give_up(NODE, cause);
    let [
        Event::Completed {
            request: Host::CONNECT,
            result: Err(error),
        },
    ] = &program.events()[..]
    else {
        panic!()
    };
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    let acquire = program.acquire(None);
    assert_eq!(program.run(acquire).unwrap_err().kind(), ErrorKind::Misconfigured);
}

#[test]
fn closing_a_client_releases_its_locks_and_ends_its_engine() {
    let store = Embedded::new();
    let mut program = Program::connected(&store);
    let acquire = program.acquire(None);
    let lease = granted(program.run(acquire.clone()));
    program.host.submit(Op::Close);
    let events = program.events();
    assert!(events.iter().any(|event| matches!(event, Event::Lost { .. })));
    assert!(program.engine.turn(Waker::noop()).is_ready());
    assert!(!lease.is_valid());
    let mut other = Program::connected(&store);
    granted(other.run(acquire));
}

#[test]
fn options_without_an_effect_are_refused() {
    let files = Options {
        tls_ca_file: Some("/ca.pem".into()),
        ..options("rediss://example")
    };
    for options in [options("memory://"), options("memory://shop"), files] {
        let refused = Host::open_driven(options, Box::new(|| {})).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Misconfigured);
    }
}
