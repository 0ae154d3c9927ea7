use super::*;
use crate::clock::tests::{in_a_process_of_its_own, step_wall_clock};
use crate::process::tests::{as_child, as_child_of_the_same_id};

fn open(url: &str) -> Host {
    Host::open_undrained(Options {
        url: Some(url.into()),
        ..Options::default()
    })
    .unwrap()
}

fn lock_a() -> LockRef {
    LockRef::One(Kind::Lock, "a".into())
}

fn acquire(host: &Host) -> Result<Completion, Error> {
    acquire_lock(host, "a")
}

fn acquire_lock(host: &Host, name: &str) -> Result<Completion, Error> {
    run(
        host,
        Op::Acquire(Acquire {
            lock: LockRef::One(Kind::Lock, name.into()),
            wait_ms: Some(0.0),
            ..Acquire::default()
        }),
    )
}

fn run(host: &Host, op: Op) -> Result<Completion, Error> {
    host.start(op).wait(Duration::from_secs(10)).expect("a result")
}

fn granted(result: Result<Completion, Error>) -> Arc<Lease> {
    match result {
        Ok(Completion::Granted(lease)) => lease,
        other => panic!("not granted: {other:?}"),
    }
}

/// Waits for something that the engine does on its own.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_machine_that_was_paused_and_resumed_has_lost_its_leases() {
    const TEST: &str = "host::tests::a_machine_that_was_paused_and_resumed_has_lost_its_leases";
    in_a_process_of_its_own(TEST, || {
        let (host, other) = (open("memory://paused"), open("memory://paused"));
        let lease = granted(acquire(&host));
        // After a short pause, the watchdog renews the lease.
        step_wall_clock(Duration::from_secs(15));
        assert!(lease.is_valid());
        wait_until("the renewal", || lease.remaining() > Duration::from_secs(25));
        // After a pause longer than the lease, the first check finds it expired, and the engine reports the loss.
        step_wall_clock(Duration::from_secs(60));
        assert!(!lease.is_valid());
        wait_until("the loss", || lease.lost_reason() == Some(LostReason::Expired));
        // The store's own clock saw no pause, so the record would last much longer.
        assert!(matches!(acquire(&other), Ok(Completion::NotGranted(_))));
        run(&host, Op::Release { lease: lease.id() }).unwrap();
        wait_until("the release", || matches!(acquire(&other), Ok(Completion::Granted(_))));
    });
}

#[test]
fn the_child_of_a_fork_owns_nothing() {
    let host = open("memory://the_child_owns_nothing");
    let lease = granted(acquire(&host));
    as_child(1, || {
        assert!(!lease.is_valid() && lease.remaining().is_zero());
        for op in [
            Op::Release { lease: lease.id() },
            Op::Extend {
                lease: lease.id(),
                by_ms: None,
            },
            Op::Acquire(Acquire {
                lock: lock_a(),
                within: Some(lease.id()),
                ..Acquire::default()
            }),
        ] {
            assert_eq!(run(&host, op).unwrap_err().kind(), ErrorKind::Forked);
        }
    });
    assert!(lease.is_valid(), "the parent is undisturbed");
}

#[test]
fn the_child_of_a_fork_owns_nothing_even_with_its_parents_process_id() {
    let host = open(&serve_store());
    let lease = granted(acquire(&host));
    let child_lease = as_child_of_the_same_id(1, || {
        assert!(!lease.is_valid() && lease.remaining().is_zero());
        let release = Op::Release { lease: lease.id() };
        assert_eq!(run(&host, release).unwrap_err().kind(), ErrorKind::Forked);
        assert!(matches!(acquire(&host), Ok(Completion::NotGranted(_))));
        granted(acquire_lock(&host, "b"))
    });
    assert!(lease.is_valid() && !child_lease.is_valid());
    as_child_of_the_same_id(1, || {
        assert!(child_lease.is_valid());
        host.close_blocking();
    });
}

#[test]
fn an_inherited_host_works_in_the_child_and_its_child() {
    let host = open(&serve_store());
    let parent_lease = granted(acquire(&host));
    let child_lease = as_child(1, || {
        assert!(matches!(acquire(&host), Ok(Completion::NotGranted(_))));
        let lease = granted(acquire_lock(&host, "b"));
        assert!(lease.is_valid());
        lease
    });
    let grandchild_lease = as_child(2, || granted(acquire_lock(&host, "c")));
    assert!(parent_lease.id() != child_lease.id() && child_lease.id() != grandchild_lease.id());
    as_child(2, || {
        assert!(!child_lease.is_valid() && grandchild_lease.is_valid());
        host.close_blocking();
    });
    as_child(1, || {
        assert!(child_lease.is_valid());
        host.close_blocking();
    });
    assert!(parent_lease.is_valid());
}

#[test]
fn a_pending_call_of_the_parent_is_forked_in_the_child() {
    let host = open("memory://a_pending_call");
    let _held = granted(acquire(&host));
    let mut pending = host.start(Op::Acquire(Acquire {
        lock: lock_a(),
        ..Acquire::default()
    }));
    as_child(1, || {
        let result = pending.wait(Duration::ZERO).expect("an answer at once");
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Forked);
    });
}

/// Serves a store on a port for as long as the tests run: a child reaches it as its parent does.
fn serve_store() -> String {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let server = steadlock_store::server::Server::bind("127.0.0.1:0", None, steadlock_store::Embedded::new());
            let server = server.await.unwrap();
            sender.send(server.local_addr()).unwrap();
            server.serve(std::future::pending()).await;
        });
    });
    format!("redis://{}", receiver.recv().unwrap())
}

#[test]
fn the_store_of_a_name_stays_with_the_process_that_holds_it() {
    let open_in_child = || {
        Host::open_undrained(Options {
            url: Some("memory://stays_with_its_process".into()),
            ..Options::default()
        })
    };
    let host = open("memory://stays_with_its_process");
    let lease = granted(acquire(&host));
    for child in [1, 2] {
        as_child(child, || {
            let refused = acquire(&host).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Misconfigured);
            assert!(refused.to_string().contains("fork"), "{refused}");
            assert_eq!(open_in_child().unwrap_err().kind(), ErrorKind::Misconfigured);
            granted(acquire(&open(&format!("memory://first_opened_in_{child}"))));
        });
    }
    as_child_of_the_same_id(1, || {
        assert_eq!(open_in_child().unwrap_err().kind(), ErrorKind::Misconfigured);
    });
    assert!(lease.is_valid());
    release_and_acquire(&host, &lease);
    // The store is free once no process holds it.
    host.close_blocking();
    drop(host);
    wait_until("the end of the store", || as_child(1, || open_in_child().is_ok()));
}

#[test]
fn at_the_end_of_a_process_waits_end_without_a_grant_and_holds_stay() {
    let name = "memory://at_the_end";
    let (host, other) = (open(name), open(name));
    let held = granted(acquire(&host));
    let wait = |host: &Host, context| {
        host.start(Op::Acquire(Acquire {
            lock: lock_a(),
            context: Some(context),
            ..Acquire::default()
        }))
    };
    let mut waits: Vec<Pending> = (1..=3).map(|context| wait(&host, context)).collect();
    let mut ended = host.end_waits().unwrap();
    assert!(matches!(
        ended.wait(Duration::from_secs(10)),
        Some(Ok(Completion::Closed))
    ));
    assert!(held.is_valid());
    run(&host, Op::Release { lease: held.id() }).unwrap();
    let other_lease = granted(acquire(&other));
    assert!(waits.iter_mut().all(|wait| wait.wait(Duration::ZERO).is_none()));
    // A later request is served.
    let mut later = wait(&host, 9);
    run(
        &other,
        Op::Release {
            lease: other_lease.id(),
        },
    )
    .unwrap();
    granted(later.wait(Duration::from_secs(10)).unwrap());
}

#[test]
fn at_the_end_of_a_process_an_undrained_grant_is_released() {
    let name = "memory://grants_of_nobody";
    let (host, other) = (open_with_events(name), open(name));
    // The owner never drains events.
    host.submit(Op::Acquire(Acquire {
        lock: lock_a(),
        wait_ms: Some(0.0),
        ..Acquire::default()
    }));
    let is_held = || match run(&other, Op::Inspect { lock: lock_a() }) {
        Ok(Completion::State(state)) => state.holder.is_some(),
        other => panic!("no state: {other:?}"),
    };
    wait_until("the grant", is_held);
    let mut ended = host.end_waits().unwrap();
    assert!(matches!(
        ended.wait(Duration::from_secs(10)),
        Some(Ok(Completion::Closed))
    ));
    granted(acquire(&other));
}

/// Opens a client that keeps its events until they are drained.
fn open_with_events(url: &str) -> Host {
    let options = Options {
        url: Some(url.into()),
        ..Options::default()
    };
    Host::open(options, Box::new(|| {})).unwrap()
}

#[test]
fn a_client_that_was_never_used_has_no_waits_to_end() {
    let options = Options {
        url: Some("redis://127.0.0.1:1".into()),
        lazy: Some(true),
        ..Options::default()
    };
    assert!(Host::open_undrained(options).unwrap().end_waits().is_none());
}

#[test]
fn a_private_memory_client_stays_with_its_parent() {
    let host = open("memory://");
    let lease = granted(acquire(&host));
    as_child(1, || {
        assert_eq!(acquire(&host).unwrap_err().kind(), ErrorKind::Forked);
    });
    assert!(lease.is_valid());
    release_and_acquire(&host, &lease);
}

fn release_and_acquire(host: &Host, lease: &Lease) {
    run(host, Op::Release { lease: lease.id() }).unwrap();
    granted(acquire(host));
}

#[test]
fn a_refusal_names_its_own_operation() {
    let host = open("memory://names_its_own_operation");
    let lease = granted(acquire(&host)).id();
    let no_name = || LockRef::One(Kind::Lock, "".into());
    for (op, operation) in [
        (
            Op::Extend {
                lease,
                by_ms: Some(9e7),
            },
            Operation::Extend,
        ),
        (
            Op::Extend {
                lease,
                by_ms: Some(0.0),
            },
            Operation::Extend,
        ),
        (Op::Inspect { lock: no_name() }, Operation::Inspect),
        (
            Op::Held {
                lock: no_name(),
                context: 1,
            },
            Operation::Inspect,
        ),
        (Op::ForceRelease { lock: no_name() }, Operation::Release),
        (Op::SetLimit { lock: no_name() }, Operation::SetLimit),
    ] {
        let refused = run(&host, op).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.operation()),
            (ErrorKind::InvalidArgument, operation)
        );
    }
}

#[test]
fn a_release_after_the_close_returns_how_the_lease_ended() {
    let host = open("memory://released_after_the_close");
    let (held, lost) = (granted(acquire(&host)), granted(acquire_lock(&host, "b")));
    let forced = Op::ForceRelease {
        lock: LockRef::One(Kind::Lock, "b".into()),
    };
    run(&host, forced).unwrap();
    // Beyond the 30 s of the grant: only then does an extension in the same millisecond surely call the server.
    let longer = Op::Extend {
        lease: lost.id(),
        by_ms: Some(60_000.0),
    };
    run(&host, longer).unwrap_err();
    assert_eq!(lost.lost_reason(), Some(LostReason::Removed));
    host.close_blocking();
    wait_until("the end", || acquire(&host).is_err());
    // A second release gives the same result.
    for _ in 0..2 {
        let release = |lease: &Lease| match run(&host, Op::Release { lease: lease.id() }) {
            Ok(Completion::Released(released)) => (released.lease, released.outcome, released.lost),
            other => panic!("not released: {other:?}"),
        };
        assert_eq!(release(&held), (held.id(), ReleaseOutcome::Released, None));
        let expired = (lost.id(), ReleaseOutcome::Expired, Some(LostReason::Removed));
        assert_eq!(release(&lost), expired);
    }
    let extension = Op::Extend {
        lease: held.id(),
        by_ms: None,
    };
    assert_eq!(run(&host, extension).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_client_that_the_parent_closed_is_closed_in_the_child_and_its_child() {
    let host = open("memory://what_the_parent_closed");
    drop(host.start(Op::Close));
    for child in [1, 2] {
        as_child(child, || {
            assert_eq!(acquire(&host).unwrap_err().kind(), ErrorKind::Closed);
            assert!(matches!(run(&host, Op::Close), Ok(Completion::Closed)));
        });
    }
}

#[test]
fn an_inherited_host_is_dropped_without_touching_the_parents_engine() {
    let host = open("memory://an_inherited_host_is_dropped");
    let lease = granted(acquire(&host));
    // In a real child this is the child's own copy of the memory.
    let state = Arc::clone(&lease);
    as_child(1, move || drop((host, state)));
    assert!(lease.is_valid(), "no shutdown was sent");
}
