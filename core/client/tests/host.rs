//! Tests of the host API, which the language bindings use.

mod support;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use std::sync::Arc;
use steadlock::host::{Acquire, Completion, Event, Host, Kind, Lease, LockRef, Op, Options};
use steadlock::{Error, ErrorKind, LostReason, ReleaseOutcome};
use support::Server;

fn lock_ref(name: &str) -> LockRef {
    LockRef::One(Kind::Lock, name.into())
}

/// A host, and a channel that receives its wake-ups.
struct Client {
    host: Host,
    woken: mpsc::Receiver<()>,
    events: Vec<Event>,
    /// Whether this client's requests are cancelled while their events are queued.
    cancels: bool,
}

impl Client {
    fn open(options: Options) -> Self {
        let (wake, woken) = mpsc::channel();
        let host = Host::open(
            options,
            Box::new(move || {
                let _ = wake.send(());
            }),
        )
        .expect("a host");
        Self {
            host,
            woken,
            events: Vec::new(),
            cancels: false,
        }
    }

    fn connect(url: &str) -> Self {
        let mut client = Self::open(options_with_url(url));
        assert!(matches!(client.result(Host::CONNECT), Ok(Completion::Connected)));
        client
    }

    /// Waits for an event.
    fn event(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            if let Some(position) = self.events.iter().position(&wanted) {
                return self.events.remove(position);
            }
            self.woken.recv_timeout(Duration::from_secs(10)).expect("a wake-up");
            let mut drained = Vec::new();
            self.host.drain(&mut drained);
            // A cancel can remove an event whose wake-up was already sent.
            assert!(self.cancels || !drained.is_empty(), "a wake-up without an event");
            self.events.append(&mut drained);
        }
    }

    fn result(&mut self, wanted: u64) -> Result<Completion, Error> {
        match self.event(|event| matches!(event, Event::Completed { request, .. } if *request == wanted)) {
            Event::Completed { result, .. } => result,
            Event::Lost { .. } | Event::Observed(_) => unreachable!(),
        }
    }

    fn run(&mut self, op: Op) -> Result<Completion, Error> {
        let request = self.host.submit(op);
        self.result(request)
    }

    fn lock(&mut self, acquire: Acquire) -> Arc<Lease> {
        match self.run(Op::Acquire(acquire)) {
            Ok(Completion::Granted(lease)) => lease,
            other => panic!("not granted: {other:?}"),
        }
    }

    fn held(&mut self, context: u64) -> (u32, Option<u64>) {
        let op = Op::Held {
            lock: lock_ref("a"),
            context,
        };
        match self.run(op) {
            Ok(Completion::Held { levels, lease }) => (levels, lease.map(|lease| lease.id())),
            other => panic!("{other:?}"),
        }
    }
}

fn options_with_url(url: &str) -> Options {
    Options {
        url: Some(url.into()),
        ..Options::default()
    }
}

fn single_attempt(context: Option<u64>) -> Acquire {
    Acquire {
        lock: lock_ref("a"),
        context,
        wait_ms: Some(0.0),
        ..Acquire::default()
    }
}

fn innermost(context: u64) -> Op {
    Op::ReleaseInnermost {
        lock: lock_ref("a"),
        context,
    }
}

#[test]
fn a_context_reenters_its_lock_and_another_one_does_not() {
    let mut client = Client::connect("memory://");
    let outer = client.lock(single_attempt(Some(1)));
    let inner = client.lock(single_attempt(Some(1)));
    assert_ne!(outer.id(), inner.id());
    assert_eq!(client.held(1), (2, Some(inner.id())));
    assert_eq!(client.held(2), (0, None));
    for context in [Some(2), None] {
        let refused = client.run(Op::Acquire(single_attempt(context)));
        match refused {
            Ok(Completion::NotGranted(error)) => assert_eq!(error.kind(), ErrorKind::LockTimeout),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(client.run(innermost(2)).unwrap_err().kind(), ErrorKind::NotOwner);
    assert!(client.run(innermost(1)).is_ok());
    assert!(inner.is_released() && !inner.is_valid() && outer.is_valid());
    assert!(client.run(innermost(1)).is_ok());
    assert_eq!(client.run(innermost(1)).unwrap_err().kind(), ErrorKind::NotOwner);
    client.lock(single_attempt(Some(2)));
}

#[test]
fn a_lease_released_twice_frees_nothing_twice() {
    let mut client = Client::connect("memory://");
    let outer = client.lock(single_attempt(Some(1)));
    let inner = client.lock(single_attempt(Some(1)));
    for _ in 0..3 {
        let result = client.run(Op::Release { lease: inner.id() });
        assert!(
            matches!(result, Ok(Completion::Released(released)) if released.outcome == ReleaseOutcome::Released),
            "{result:?}"
        );
    }
    assert!(outer.is_valid());
    assert_eq!(client.held(1), (1, Some(outer.id())));
}

#[test]
fn completions_that_are_not_drained_have_one_wake_up() {
    let client = Client::connect("memory://");
    while client.woken.try_recv().is_ok() {}
    let requests: Vec<u64> = (0..100)
        .map(|number| {
            client.host.submit(Op::Inspect {
                lock: lock_ref(&format!("name-{number}")),
            })
        })
        .collect();
    client.woken.recv_timeout(Duration::from_secs(10)).expect("a wake-up");
    let second = client.woken.recv_timeout(Duration::from_millis(200));
    assert!(second.is_err(), "a second wake-up before a drain");
    let mut done = Vec::new();
    client.host.drain(&mut done);
    // Only a very slow engine has answered fewer so far.
    while done.len() < requests.len() {
        client.woken.recv_timeout(Duration::from_secs(10)).expect("a wake-up");
        client.host.drain(&mut done);
    }
    assert!(client.woken.try_recv().is_err(), "an empty queue sends no wake-up");
    let mut answered: Vec<u64> = done
        .iter()
        .map(|event| match event {
            Event::Completed { request, .. } => *request,
            Event::Lost { .. } | Event::Observed(_) => panic!("{event:?}"),
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, requests);
}

#[test]
fn a_cancelled_request_leaves_no_lock() {
    let server = Server::memory();
    let mut client = Client::connect(&server.url());
    client.cancels = true;
    // The delay of the cancel varies from zero until after the answer, so some cancels arrive while the engine handles
    // the grant.
    for round in 0..2_000 {
        let request = client.host.submit(Op::Acquire(single_attempt(None)));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(round % 100) {
            std::hint::spin_loop();
        }
        client.host.cancel(request);
    }
    // This last request is served once all locks of cancelled requests are released.
    let last = client.host.submit(Op::Acquire(Acquire {
        wait_ms: Some(5_000.0),
        ..single_attempt(None)
    }));
    loop {
        let Event::Completed { request, result } = client.event(|_| true) else {
            panic!("a lease was lost");
        };
        if let Ok(Completion::Granted(lease)) = result {
            // The caller owns a lease whose event was drained before its cancel arrived.
            let released = client.host.submit(Op::Release { lease: lease.id() });
            if request == last {
                client.result(released).unwrap();
                break;
            }
        }
    }
    assert!(!server.exists("a"));
}

#[test]
fn a_dropped_pending_cancels() {
    let server = Server::memory();
    let client = Client::connect(&server.url());
    for _ in 0..200 {
        drop(client.host.start(Op::Acquire(single_attempt(None))));
    }
    let acquire = Acquire {
        wait_ms: Some(5_000.0),
        ..single_attempt(None)
    };
    let mut pending = client.host.start(Op::Acquire(acquire));
    let Some(Ok(Completion::Granted(lease))) = pending.wait(Duration::from_secs(10)) else {
        panic!("not granted");
    };
    client.host.release_blocking(&[lease.id()], Duration::from_secs(1));
    assert!(!server.exists("a"));
}

#[test]
fn a_loss_is_reported_once_also_for_a_lease_of_a_blocking_caller() {
    let mut client = Client::connect("memory://");
    let mut pending = client.host.start(Op::Acquire(Acquire {
        lease_ms: Some(100.0),
        ..single_attempt(None)
    }));
    let Some(Ok(Completion::Granted(lease))) = pending.wait(Duration::from_secs(10)) else {
        panic!("not granted");
    };
    match client.event(|event| matches!(event, Event::Lost { .. })) {
        Event::Lost { lease: id, reason, .. } => assert_eq!((id, reason), (lease.id(), LostReason::Expired)),
        Event::Completed { .. } | Event::Observed(_) => unreachable!(),
    }
    assert_eq!(lease.lost_reason(), Some(LostReason::Expired));
    // The engine has forgotten the lease, but the lease object still knows that it expired.
    assert!(lease.is_forgotten());
    // As long as the object exists, the engine uses it to answer.
    let Err(refused) = client.run(Op::Extend {
        lease: lease.id(),
        by_ms: None,
    }) else {
        panic!("extended");
    };
    assert_eq!(
        (refused.kind(), refused.reason()),
        (ErrorKind::LockLost, Some(LostReason::Expired))
    );
    assert_eq!(
        refused.message(),
        "the lease was lost: its fixed length passed before its release; acquire the lock again, with a longer lease \
         or a renewed one"
    );
    let Ok(Completion::Released(released)) = client.run(Op::Release { lease: lease.id() }) else {
        panic!("not released");
    };
    let result = (released.lease, released.outcome, released.lost);
    assert_eq!(result, (lease.id(), ReleaseOutcome::Expired, Some(LostReason::Expired)));
    assert!(client.events.is_empty());
}

#[test]
fn each_release_of_a_lost_lease_reports_how_it_was_lost() {
    let mut client = Client::connect("memory://");
    let lease = client.lock(Acquire {
        max_hold_ms: Some(100.0),
        ..single_attempt(None)
    });
    client.event(|event| matches!(event, Event::Lost { .. }));
    assert!(!lease.is_forgotten());
    for _ in 0..2 {
        let Ok(Completion::Released(released)) = client.run(Op::Release { lease: lease.id() }) else {
            panic!("not released");
        };
        let result = (released.lease, released.outcome, released.lost);
        assert_eq!(result, (lease.id(), ReleaseOutcome::Expired, Some(LostReason::MaxHold)));
    }
    let refused = client.run(Op::Extend {
        lease: lease.id(),
        by_ms: None,
    });
    assert_eq!(refused.unwrap_err().reason(), Some(LostReason::MaxHold));
}

#[test]
fn a_result_can_be_waited_for_in_slices() {
    let mut client = Client::connect("memory://");
    let held = client.lock(single_attempt(None));
    let mut pending = client.host.start(Op::Acquire(Acquire {
        wait_ms: None,
        ..single_attempt(None)
    }));
    assert!(pending.wait(Duration::from_millis(1)).is_none());
    assert!(pending.wait(Duration::ZERO).is_none());
    client.run(Op::Release { lease: held.id() }).unwrap();
    assert!(matches!(
        pending.wait(Duration::from_secs(10)),
        Some(Ok(Completion::Granted(_)))
    ));
}

#[test]
fn out_of_range_numbers_are_refused() {
    let mut client = Client::connect("memory://");
    for odd in [f64::NAN, f64::INFINITY, -1.0] {
        for acquire in [
            Acquire {
                wait_ms: Some(odd),
                ..single_attempt(None)
            },
            Acquire {
                lease_ms: Some(odd),
                ..single_attempt(None)
            },
            Acquire {
                lease_ms: Some(odd),
                renew: true,
                ..single_attempt(None)
            },
            Acquire {
                max_hold_ms: Some(odd),
                ..single_attempt(None)
            },
        ] {
            let error = client.run(Op::Acquire(acquire)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{odd}");
            assert_eq!(error.lock_name(), Some("a"));
        }
    }
    let fixed = [0.0, 99.9, 86_400_001.0].map(|lease_ms| (lease_ms, false));
    let renewed = [0.0, 99.9, 100.0, 299.9, 86_400_001.0].map(|lease_ms| (lease_ms, true));
    for (lease_ms, renew) in fixed.into_iter().chain(renewed) {
        let acquire = Acquire {
            lease_ms: Some(lease_ms),
            renew,
            ..single_attempt(None)
        };
        let error = client.run(Op::Acquire(acquire)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{lease_ms}, {renew}");
    }
    let lease = client.lock(single_attempt(None));
    for by_ms in [f64::NAN, -1.0, 0.0] {
        let op = Op::Extend {
            lease: lease.id(),
            by_ms: Some(by_ms),
        };
        assert_eq!(
            client.run(op).unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{by_ms}"
        );
    }
}

#[test]
fn a_host_that_cannot_connect_fails_every_request() {
    let mut client = Client::open(options_with_url(&format!(
        "redis://:sesame@127.0.0.1:{}",
        support::unused_port()
    )));
    let mut pending = client.host.start(Op::Acquire(single_attempt(None)));
    let early = pending.wait(Duration::from_secs(10)).expect("an answer").unwrap_err();
    let connect = client.result(Host::CONNECT).unwrap_err();
    let waited = client.host.wait_connected().unwrap_err();
    let late = client.run(Op::Inspect { lock: lock_ref("a") }).unwrap_err();
    for error in [early, connect, waited, late] {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.node().is_some_and(|node| node.contains("127.0.0.1:")), "{error}");
        assert_eq!(error.to_string().matches("127.0.0.1:").count(), 1, "{error}");
        assert!(!format!("{error} {error:?}").contains("sesame"));
    }
    assert!(matches!(client.run(Op::Close), Ok(Completion::Closed)));
    client.host.close_blocking();
}

#[test]
fn a_closed_host_answers_closed() {
    let mut client = Client::connect("memory://");
    let lease = client.lock(single_attempt(None));
    client.host.close_blocking();
    client.host.close_blocking();
    match client.event(|event| matches!(event, Event::Lost { .. })) {
        Event::Lost { lease: id, reason, .. } => assert_eq!((id, reason), (lease.id(), LostReason::Closed)),
        Event::Completed { .. } | Event::Observed(_) => unreachable!(),
    }
    assert!(matches!(client.run(Op::Close), Ok(Completion::Closed)));
    let ops = [
        Op::Acquire(single_attempt(None)),
        Op::Inspect { lock: lock_ref("a") },
        Op::Extend {
            lease: lease.id(),
            by_ms: None,
        },
    ];
    for op in ops {
        assert_eq!(client.run(op.clone()).unwrap_err().kind(), ErrorKind::Closed, "{op:?}");
    }
}

#[test]
fn dropping_the_last_host_closes_the_client() {
    let server = Server::memory();
    let mut client = Client::connect(&server.url());
    let lease = client.lock(single_attempt(None));
    drop(client.host.clone());
    assert!(lease.is_valid());
    drop(client.host);
    let mut other = Client::connect(&server.url());
    let acquire = Acquire {
        wait_ms: Some(5_000.0),
        ..single_attempt(None)
    };
    other.lock(acquire);
    assert_eq!(lease.lost_reason(), Some(LostReason::Closed));
}

#[test]
fn invalid_options_are_refused_before_anything_starts() {
    let refuse = |options: Options| Host::open(options, Box::new(|| {})).expect_err("refused").kind();
    assert_eq!(refuse(options_with_url("nonsense")), ErrorKind::InvalidArgument);
    assert_eq!(refuse(options_with_url("redis://h:port")), ErrorKind::InvalidArgument);
    assert_eq!(
        refuse(options_with_url("redis+cluster://h/1")),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        refuse(options_with_url("redis+sentinel://h")),
        ErrorKind::InvalidArgument
    );
    let short = Options {
        lease_ms: Some(299.0),
        ..options_with_url("memory://")
    };
    assert_eq!(refuse(short), ErrorKind::InvalidArgument);
}

/// A multi-lock of two members. The second one, a mutex, is not reentrant by itself.
fn composite() -> LockRef {
    LockRef::All(vec![
        LockRef::One(Kind::Lock, "member".into()),
        LockRef::One(Kind::Mutex, "other".into()),
    ])
}

fn acquire_by(context: u64, lock: LockRef) -> Acquire {
    Acquire {
        lock,
        context: Some(context),
        wait_ms: Some(0.0),
        ..Acquire::default()
    }
}

#[test]
fn a_composite_lock_is_reentered_as_a_whole() {
    let mut client = Client::connect("memory://");
    let outer = client.lock(acquire_by(1, composite()));
    let inner = client.lock(acquire_by(1, composite()));
    assert!(matches!(
        client.run(Op::Acquire(acquire_by(2, composite()))),
        Ok(Completion::NotGranted(_))
    ));
    client.run(Op::Release { lease: outer.id() }).unwrap();
    assert!(inner.is_valid());
    assert!(matches!(
        client.run(Op::Acquire(acquire_by(2, composite()))),
        Ok(Completion::NotGranted(_))
    ));
    client
        .run(Op::ReleaseInnermost {
            lock: composite(),
            context: 1,
        })
        .unwrap();
    assert!(!inner.is_valid());
    client.lock(acquire_by(2, composite()));
}

#[test]
fn a_member_is_released_only_with_its_composite_lock() {
    let mut client = Client::connect("memory://");
    let composite = client.lock(acquire_by(1, composite()));
    let member = || LockRef::One(Kind::Lock, "member".into());
    let refused = client.run(Op::ReleaseInnermost {
        lock: member(),
        context: 1,
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotOwner);
    assert!(matches!(
        client.run(Op::Acquire(acquire_by(2, member()))),
        Ok(Completion::NotGranted(_))
    ));
    let held = client.run(Op::Held {
        lock: member(),
        context: 1,
    });
    assert!(matches!(held, Ok(Completion::Held { levels: 0, lease: None })));

    let separate = client.lock(acquire_by(1, member()));
    client.run(Op::Release { lease: composite.id() }).unwrap();
    assert!(separate.is_valid(), "the separate entry stays");
    assert!(matches!(
        client.run(Op::Acquire(acquire_by(2, member()))),
        Ok(Completion::NotGranted(_))
    ));
    client.run(Op::Release { lease: separate.id() }).unwrap();
    client.lock(acquire_by(2, member()));
}
