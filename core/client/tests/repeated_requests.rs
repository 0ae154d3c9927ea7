//! A caller that waits for one lock twice at the same time. This happens when a signal handler waits for the lock
//! inside a wait of its thread: the thread cannot continue before the handler returns. Whichever wait is granted, the
//! other one must return too.

mod support;

use std::sync::Arc;
use std::time::Duration;

use steadlock::host::{Acquire, Completion, Host, Kind, Lease, LockRef, Op, Options, Pending};
use steadlock::{Error, ErrorKind, ReleaseOutcome};
use support::Server;

const SOON: Duration = Duration::from_secs(10);
/// A call that has not returned after this time is waiting.
const WAITING_AFTER: Duration = Duration::from_millis(300);
const OTHER: u64 = 1;
const CALLER: u64 = 2;

fn host(url: &str) -> Host {
    let options = Options {
        url: Some(url.into()),
        ..Options::default()
    };
    Host::open(options, Box::new(|| {})).unwrap()
}

fn start_acquire(host: &Host, context: u64, kind: Kind) -> Pending {
    host.start(Op::Acquire(Acquire {
        lock: LockRef::One(kind, "a".into()),
        context: Some(context),
        ..Acquire::default()
    }))
}

type Answer = Result<Completion, Error>;

fn granted(answer: Option<Answer>) -> Arc<Lease> {
    match answer {
        Some(Ok(Completion::Granted(lease))) => lease,
        other => panic!("not granted: {other:?}"),
    }
}

fn is_granted(answer: &Answer) -> bool {
    matches!(answer, Ok(Completion::Granted(_)))
}

fn release(host: &Host, lease: &Lease) {
    match host.start(Op::Release { lease: lease.id() }).wait(SOON) {
        Some(Ok(Completion::Released(released))) => assert_eq!(released.outcome, ReleaseOutcome::Released),
        other => panic!("not released: {other:?}"),
    }
}

/// Returns the results of two waits of one caller, after another client has released the lock.
fn twice(url: &str, held: Kind, kinds: [Kind; 2]) -> [Answer; 2] {
    let (theirs, ours) = (host(url), host(url));
    let lease = granted(start_acquire(&theirs, OTHER, held).wait(SOON));
    let mut waits = kinds.map(|kind| {
        let mut pending = start_acquire(&ours, CALLER, kind);
        assert!(pending.wait(WAITING_AFTER).is_none(), "{kinds:?}");
        pending
    });
    release(&theirs, &lease);
    let answers = waits.each_mut().map(|pending| pending.wait(SOON).expect("an answer"));
    for answer in &answers {
        if let Ok(Completion::Granted(lease)) = answer {
            release(&ours, lease);
        }
    }
    // Both waits have left nothing behind, so the lock is free.
    let lease = granted(start_acquire(&theirs, OTHER, held).wait(SOON));
    release(&theirs, &lease);
    answers
}

fn on_every_server(scenario: impl Fn(&str)) {
    for server in [Server::memory(), Server::redis()] {
        scenario(&server.url());
    }
}

#[test]
fn two_requests_for_a_reentrant_lock_are_both_granted() {
    on_every_server(|url| {
        for kind in [Kind::Lock, Kind::Fair, Kind::Read, Kind::Write] {
            let held = if kind == Kind::Read { Kind::Write } else { kind };
            let answers = twice(url, held, [kind, kind]);
            assert!(answers.iter().all(is_granted), "{kind:?}: {answers:?}");
        }
    });
}

#[test]
fn one_of_two_requests_for_a_mutex_is_granted_and_the_other_refused() {
    on_every_server(|url| {
        let answers = twice(url, Kind::Mutex, [Kind::Mutex, Kind::Mutex]);
        assert!(answers.iter().any(is_granted), "{answers:?}");
        let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
        let kinds: Vec<_> = refused.map(Error::kind).collect();
        assert_eq!(kinds, [ErrorKind::InvalidArgument], "{answers:?}");
    });
}

#[test]
fn a_waiting_writer_may_read_inside_but_a_waiting_reader_may_not_write() {
    on_every_server(|url| {
        for kinds in [[Kind::Read, Kind::Write], [Kind::Write, Kind::Read]] {
            let answers = twice(url, Kind::Write, kinds);
            let write = if kinds[0] == Kind::Write {
                &answers[0]
            } else {
                &answers[1]
            };
            match write {
                Ok(_) => assert!(answers.iter().all(is_granted), "{kinds:?}: {answers:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                    assert!(answers.iter().any(is_granted), "{kinds:?}: {answers:?}");
                }
            }
        }
    });
}

#[test]
fn a_bounded_wait_for_a_mutex_lasts_until_its_bound() {
    on_every_server(|url| {
        let (theirs, ours) = (host(url), host(url));
        let lease = granted(start_acquire(&theirs, OTHER, Kind::Mutex).wait(SOON));
        let mut first = start_acquire(&ours, CALLER, Kind::Mutex);
        let mut second = ours.start(Op::Acquire(Acquire {
            lock: LockRef::One(Kind::Mutex, "a".into()),
            context: Some(CALLER),
            wait_ms: Some(8_000.0),
            ..Acquire::default()
        }));
        assert!(second.wait(WAITING_AFTER).is_none());
        release(&theirs, &lease);
        let lease = granted(first.wait(SOON));
        assert!(
            second.wait(WAITING_AFTER).is_none(),
            "another thread may release the first lease"
        );
        release(&ours, &lease);
        release(&ours, &granted(second.wait(SOON)));
    });
}
