//! Multi-locks: several locks as one.

use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, Context, Error, ErrorKind, Event, Grant, Kind, LeaseTerms, Operation, Outcome, Permits, Script,
    Ticket,
};

use crate::world::{LATENCY, World, auto_renewed, by_ms, error, fixed, from, granted, ms, renewed, wants};

/// Returns requests of one context for locks of these names.
fn locks<const N: usize>(names: [&str; N]) -> Vec<AcquireRequest> {
    names.map(|name| from(1, name)).to_vec()
}

fn with_lease(requests: Vec<AcquireRequest>, lease: LeaseTerms) -> Vec<AcquireRequest> {
    let requests = requests.into_iter();
    requests.map(|request| AcquireRequest { lease, ..request }).collect()
}

impl World {
    fn acquire_all(&mut self, client: usize, requests: Vec<AcquireRequest>) -> Ticket {
        let now = self.now;
        let ticket = self.clients[client].session.acquire_all(requests, now);
        self.drain(client);
        ticket
    }

    fn hold_all(&mut self, client: usize, requests: Vec<AcquireRequest>) -> Grant {
        let ticket = self.acquire_all(client, requests);
        granted(self.outcome(client, ticket))
    }

    /// Returns the error of several locks that are refused at once, without a call to the server.
    fn refused_at_once(&mut self, requests: Vec<AcquireRequest>) -> Error {
        let before = self.server.calls.len();
        let ticket = self.acquire_all(0, requests);
        let (outcome, took) = self.outcome_within(0, ticket, Duration::ZERO).expect("at once");
        assert_eq!((took, self.server.calls.len()), (Duration::ZERO, before));
        error(outcome)
    }

    fn owner_of(&self, name: &str) -> Option<String> {
        self.server.records.get(name).map(|record| record.owner.clone())
    }
}

#[test]
fn several_locks_that_are_entered_again_without_a_lease_are_renewed_from_then_on() {
    for (longest, lasts_for) in [(None, 20_000), (Some(ms(900)), 800)] {
        let mut world = World::with(1, auto_renewed(2_500));
        let mut first = locks(["left", "right", "top"]);
        for request in &mut first {
            request.lease = fixed(700);
            request.max_hold = longest;
        }
        world.hold_all(0, first);
        let again = world.hold_all(0, locks(["left", "right", "top"]));
        assert_eq!(again.levels, 2);
        world.run_for(ms(lasts_for));
        assert_eq!(world.lost(0), [], "{longest:?}");
        for name in ["left", "right", "top"] {
            assert!(world.owner_of(name).is_some(), "{name}: {longest:?}");
        }
    }
}

#[test]
fn a_member_that_is_lost_during_the_wait_is_acquired_again() {
    let mut world = World::with(2, auto_renewed(3_000));
    let right = world.hold(1, wants("right"));
    let ticket = world.acquire_all(0, locks(["left", "right"]));
    world.run_for(ms(100));
    let before = world.owner_of("left").expect("acquired");
    world.server.records.remove("left");
    // The next renewal discovers the loss.
    world.run_for(ms(1_100));
    let after = world.owner_of("left").expect("acquired again");
    assert_ne!(
        before, after,
        "nothing is asked for under an owner id that was given up"
    );
    world.release(1, right.lease);
    granted(world.outcome(0, ticket));
    assert_eq!((world.owner_of("left"), world.lost(0).len()), (Some(after), 0));
}

#[test]
fn a_whole_is_not_granted_with_a_lock_that_was_lost_before_the_last_one_was_won() {
    for (lease, max_hold) in [
        (LeaseTerms::CLIENT, None),
        (fixed(20_000), None),
        (LeaseTerms::CLIENT, Some(ms(10_000))),
    ] {
        let mut world = World::new(2);
        let right = world.hold(1, wants("right"));
        let wanted = locks(["left", "right"]).into_iter();
        let wanted = wanted.map(|request| AcquireRequest {
            lease,
            max_hold,
            ..request
        });
        let ticket = world.acquire_all(0, wanted.collect());
        world.run_for(ms(2_000));
        world.server.records.remove("left");
        let left = world.hold(1, wants("left"));
        world.release(1, right.lease);
        assert_eq!(
            world.outcome_within(0, ticket, ms(3_000)),
            None,
            "{lease:?}, {max_hold:?}"
        );
        world.release(1, left.lease);
        let whole = granted(world.outcome(0, ticket));
        world.release(0, whole.lease);
        world.run_for(ms(1_000));
        assert!(world.clients[0].session.is_drained() && world.server.records.is_empty());
    }
}

#[test]
fn a_whole_whose_last_renewals_took_long_is_not_granted_with_a_lock_that_was_lost_meanwhile() {
    let mut world = World::new(1);
    let wanted = with_lease(locks(["left", "right"]), fixed(3_600_000));
    let ticket = world.acquire_all(0, wanted);
    while world.owner_of("right").is_none() {
        world.run_for(LATENCY);
    }
    // The record of the first lock already lasts for its whole hour.
    world.server.stopped = true;
    world.run_for(Duration::from_secs(15));
    let first = world.owner_of("left").expect("acquired");
    world.server.records.remove("left");
    world.server.stopped = false;
    granted(world.outcome(0, ticket));
    let now = world.owner_of("left").expect("nothing is granted without it");
    assert_ne!(first, now);
}

#[test]
fn a_wait_for_several_locks_ends_in_time_though_the_server_stops_before_the_last_answer() {
    let mut world = World::new(2);
    let right = world.hold(1, wants("right"));
    let wanted = locks(["left", "right"]).into_iter().map(|request| AcquireRequest {
        wait: Some(ms(2_000)),
        ..request
    });
    let ticket = world.acquire_all(0, wanted.collect());
    world.run_for(ms(1_900));
    let theirs = world.owner_of("right");
    world.release(1, right.lease);
    while world.owner_of("right").is_none() || world.owner_of("right") == theirs {
        world.run_for(LATENCY);
    }
    world.server.stopped = true;
    let (outcome, _) = world.outcome_within(0, ticket, ms(150)).expect("its wait is over");
    let refused = error(outcome);
    assert_eq!(
        (refused.kind(), refused.operation()),
        (ErrorKind::Unavailable, Operation::Acquire),
        "{refused}"
    );
}

#[test]
fn the_last_renewals_of_several_locks_have_their_time_though_the_wait_is_over() {
    let mut world = World::new(1);
    world.reply_latency = ms(30);
    let wanted = with_lease(locks(["left", "right"]), fixed(60_000)).into_iter();
    let wanted = wanted.map(|request| AcquireRequest {
        wait: Some(ms(20)),
        ..request
    });
    let ticket = world.acquire_all(0, wanted.collect());
    granted(world.outcome(0, ticket));
}

#[test]
fn a_hold_that_is_reentered_with_renewal_during_a_multi_lock_stays_renewed() {
    let mut world = World::with(2, auto_renewed(5_000));
    let right = world.hold(1, wants("right"));
    let mut left = from(1, "left");
    left.lease = fixed(10_000);
    world.hold(0, left);
    let wanted = with_lease(locks(["left", "right"]), fixed(7_000));
    let ticket = world.acquire_all(0, wanted);
    world.run_for(ms(100));
    world.hold(0, from(1, "left"));
    world.cancel(0, ticket);
    world.run_for(ms(30_000));
    assert_eq!(world.lost(0), []);
    world.release(1, right.lease);
}

#[test]
fn a_hold_that_is_reentered_with_renewal_stays_renewed_when_the_same_answer_ends_the_multi_lock() {
    let mut world = World::with(1, auto_renewed(5_000));
    world.reply_latency = ms(30);
    let mut fixed_one = from(1, "left");
    fixed_one.lease = fixed(10_000);
    world.hold(0, fixed_one);
    // One renewal serves both callers. Its answer completes the multi-lock first, and then lets the other caller enter.
    let several = world.acquire_all(0, with_lease(locks(["left"]), fixed(20_000)));
    let mut renewed_one = from(1, "left");
    renewed_one.lease = renewed(15_000);
    let inner = world.acquire(0, renewed_one);
    granted(world.outcome(0, several));
    granted(world.outcome(0, inner));
    world.run_for(ms(60_000));
    assert_eq!(world.lost(0), []);
}

#[test]
fn a_single_attempt_asks_once_for_each_member() {
    let mut world = World::new(1);
    world.hold_all(0, locks(["left", "right", "top"]));
    assert_eq!(
        (world.calls(Script::LockAcquire), world.calls(Script::LockRenew)),
        (3, 0)
    );
}

/// Each member lasts as long as a single lock that the last call had granted, however long the earlier calls took.
#[test]
fn each_member_of_a_fixed_whole_has_its_full_length_when_it_is_granted() {
    for (length, reply_latency) in [(10_000, ms(0)), (10_000, ms(200)), (30_000, ms(499)), (60_000, ms(200))] {
        for wait in [None, Some(Duration::ZERO)] {
            let mut world = World::new(1);
            world.reply_latency = LATENCY + reply_latency;
            let names = ["one", "two", "three", "four"];
            let wanted = with_lease(locks(names), fixed(length)).into_iter();
            let wanted = wanted.map(|request| AcquireRequest { wait, ..request });
            let whole = world.hold_all(0, wanted.collect());
            let acquired = world.server.calls.iter();
            let acquired = acquired.filter(|(_, _, script)| *script == Script::LockAcquire);
            let last_sent = acquired.map(|(arrived, _, _)| *arrived - LATENCY).max().unwrap();
            // TTLs are sent in whole milliseconds.
            let margin = ms(1);
            for name in names {
                let expires = world.server.records[name].expires;
                assert!(
                    expires + margin >= last_sent + ms(length),
                    "{name} {length} {reply_latency:?} {wait:?}"
                );
            }
            let promised = last_sent + ms(length) - ms(length / 100) - ms(20);
            assert!(
                whole.deadline + margin >= promised,
                "{:?} before {promised:?}: {length} {reply_latency:?} {wait:?}",
                whole.deadline
            );
        }
    }
}

#[test]
fn a_wait_that_ends_while_a_lost_member_is_acquired_again_leaves_nothing_behind() {
    let mut world = World::with(2, auto_renewed(3_000));
    world.hold(1, wants("right"));
    let mut requests = locks(["left", "right"]);
    requests.iter_mut().for_each(|request| request.wait = Some(ms(2_000)));
    let ticket = world.acquire_all(0, requests);
    world.run_for(ms(100));
    world.server.records.remove("left");
    let refusal = error(world.outcome(0, ticket));
    assert_eq!(refusal.kind(), ErrorKind::LockTimeout, "{refusal}");
    world.run_for(ms(1_000));
    assert_eq!(world.owner_of("left"), None);
    assert_eq!(world.lost(0), []);
}

#[test]
fn an_extension_of_several_locks_tells_what_the_whole_may_rely_on() {
    let mut world = World::new(1);
    let mut requests = locks(["left", "right"]);
    requests.iter_mut().for_each(|request| request.lease = fixed(10_000));
    let whole = world.hold_all(0, requests);
    let now = world.now;
    let ticket = world.clients[0].session.extend(whole.lease, by_ms(60_000), now);
    world.drain(0);
    let Outcome::Extended(until) = world.outcome(0, ticket) else {
        panic!("it is extended");
    };
    let renewed = |(_, event): &(_, Event)| match event {
        Event::Renewed { lease, deadline } => Some((*lease, *deadline)),
        _ => None,
    };
    let renewed = world.clients[0].events.iter().filter_map(renewed).next_back();
    assert_eq!(renewed, Some((whole.lease, until)));
}

#[test]
fn both_sides_of_a_lock_are_not_taken_together() {
    let mut world = World::new(1);
    for wait in [None, Some(Duration::ZERO)] {
        let side = |kind| AcquireRequest {
            kind,
            wait,
            ..wants("both")
        };
        let refusal = world.refused_at_once(vec![side(Kind::Read), side(Kind::Write)]);
        assert_eq!(refusal.kind(), ErrorKind::InvalidArgument, "{refusal}");
    }
}

/// Returns a world in which the caller holds a lock of this kind. The model of the server grants everything.
fn holding(kind: Kind) -> (World, Grant) {
    let mut world = World::new(1);
    world.server.says_yes = true;
    let grant = world.hold(0, AcquireRequest { kind, ..from(1, "own") });
    (world, grant)
}

fn permits(wanted: u32) -> Kind {
    Kind::Semaphore(Permits::new(wanted, 3).unwrap())
}

#[test]
fn a_wait_for_several_locks_of_which_the_caller_keeps_one_from_itself_is_refused_at_once() {
    for (held, wanted) in [
        (Kind::Mutex, Kind::Mutex),
        (Kind::Read, Kind::Write),
        (permits(2), permits(2)),
    ] {
        let (mut world, own) = holding(held);
        let both = |wait, context| {
            let request = AcquireRequest {
                kind: wanted,
                wait,
                ..from(context, "own")
            };
            vec![
                AcquireRequest {
                    wait,
                    ..from(context, "a")
                },
                request,
            ]
        };
        for wait in [None, Some(ms(50))] {
            let refusal = world.refused_at_once(both(wait, 1));
            assert_eq!(refusal.kind(), ErrorKind::InvalidArgument, "{held:?}");
            assert_eq!(refusal.lock_name(), Some("own"), "{held:?}");
        }
        if held == Kind::Mutex {
            // Another thread or task may wait for the mutex.
            let ticket = world.acquire_all(0, both(None, 2));
            assert_eq!(world.outcome_within(0, ticket, ms(5_000)), None);
            world.cancel(0, ticket);
        }
        world.release(0, own.lease);
        world.hold_all(0, both(None, 1));
    }
}

#[test]
fn permits_that_leave_enough_for_another_request_refuse_nobody() {
    let (mut world, _) = holding(permits(1));
    let request = AcquireRequest {
        kind: permits(2),
        ..from(1, "own")
    };
    world.hold_all(0, vec![from(1, "a"), request]);
}

#[test]
fn a_wait_for_a_member_of_what_the_caller_holds_is_refused_at_once() {
    let mut world = World::new(1);
    world.server.says_yes = true;
    let member = AcquireRequest {
        kind: Kind::Mutex,
        ..from(1, "own")
    };
    world.hold_all(0, vec![from(1, "a"), member.clone()]);
    let ticket = world.acquire(0, member.clone());
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::InvalidArgument);
    // A caller that does not wait gets the answer that the lock is held.
    let once = AcquireRequest {
        wait: Some(Duration::ZERO),
        ..member.clone()
    };
    let ticket = world.acquire(0, once);
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::LockTimeout);
    // Another multi-lock with this member is refused, but the same multi-lock can be re-entered.
    let other = world.refused_at_once(vec![from(1, "b"), member.clone()]);
    assert_eq!(other.kind(), ErrorKind::InvalidArgument);
    assert_eq!(world.hold_all(0, vec![from(1, "a"), member]).levels, 2);
}

#[test]
fn a_writer_reenters_the_write_lock_even_if_it_also_reads_as_a_member() {
    let mut world = World::new(1);
    world.server.says_yes = true;
    let of = |kind| AcquireRequest {
        kind,
        ..from(1, "book")
    };
    world.hold(0, of(Kind::Write));
    world.hold_all(0, vec![from(1, "a"), of(Kind::Read)]);
    assert_eq!(world.hold(0, of(Kind::Write)).levels, 2);
}

/// Returns the request of this thread or task for a mutex.
fn mutex_of(context: Option<u64>, wait: Option<Duration>) -> AcquireRequest {
    AcquireRequest {
        kind: Kind::Mutex,
        context: context.map(Context::from_u64),
        wait,
        ..wants("own")
    }
}

#[test]
fn a_holder_of_a_mutex_that_would_wait_for_itself_for_ever_is_refused_at_once() {
    let mut world = World::new(1);
    world.server.says_yes = true;
    let endless = mutex_of(Some(1), None);
    let held = world.hold(0, endless.clone());
    let again = world.acquire(0, endless.clone());
    let (outcome, took) = world.outcome_within(0, again, ms(5_000)).expect("it is refused");
    assert_eq!(took, Duration::ZERO);
    let refused = error(outcome);
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert!(refused.message().contains("not reentrant"), "{refused}");

    let by_lease = AcquireRequest {
        within: Some(held.lease),
        ..mutex_of(None, None)
    };
    let again = world.acquire(0, by_lease);
    let (outcome, _) = world.outcome_within(0, again, Duration::ZERO).expect("at once");
    let refused = error(outcome);
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert!(refused.message().contains("release it first"), "{refused}");

    // Another thread or task waits, and so does a caller without a context.
    let waiters = [Some(2), None].map(|context| world.acquire(0, mutex_of(context, None)));
    for waiter in waiters {
        assert_eq!(world.outcome_within(0, waiter, ms(100)), None);
    }
    world.release(0, held.lease);
    let next = granted(world.outcome(0, waiters[0]));
    world.release(0, next.lease);
    let next = granted(world.outcome(0, waiters[1]));
    world.release(0, next.lease);
    world.hold(0, endless);
}

#[test]
fn a_bounded_wait_for_an_own_mutex_is_allowed_and_names_the_holder() {
    let mut world = World::new(1);
    world.server.says_yes = true;
    let held = world.hold(0, mutex_of(Some(1), None));
    for (wait, context, is_the_caller) in [(500, 1, true), (0, 1, true), (500, 2, false), (0, 2, false)] {
        let again = world.acquire(0, mutex_of(Some(context), Some(ms(wait))));
        let refused = error(world.outcome(0, again));
        assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}");
        let says_so = refused.message().contains("held by the calling thread or task itself");
        assert_eq!(says_so, is_the_caller, "{refused}");
        assert!(refused.holder().is_some(), "{refused}");
    }
    // Any caller that has the lease may release it, even from another thread.
    let again = world.acquire(0, mutex_of(Some(1), Some(ms(500))));
    assert_eq!(world.outcome_within(0, again, ms(100)), None);
    world.release(0, held.lease);
    granted(world.outcome(0, again));
}

#[test]
fn a_mutex_whose_fixed_lease_has_expired_is_its_holders_no_more() {
    let mut world = World::new(1);
    world.server.says_yes = true;
    let short = AcquireRequest {
        lease: fixed(200),
        ..mutex_of(Some(1), None)
    };
    world.hold(0, short);
    world.run_for(ms(300));
    world.hold(0, mutex_of(Some(1), None));
}

#[test]
fn a_wait_for_a_task_that_it_blocks_is_refused_at_once() {
    let permits = |wanted| Kind::Semaphore(Permits::new(wanted, 3).unwrap());
    let cases = [
        (Kind::Lock, Kind::Lock, true),
        (Kind::Lock, Kind::Fair, true),
        (Kind::Mutex, Kind::Mutex, true),
        (Kind::Write, Kind::Write, true),
        (Kind::Write, Kind::Read, true),
        (Kind::Read, Kind::Write, true),
        (Kind::Read, Kind::Read, false),
        (permits(2), permits(2), true),
        (permits(2), permits(1), false),
    ];
    for (theirs, ours, is_refused) in cases {
        let mut world = World::new(1);
        world.server.says_yes = true;
        let held = AcquireRequest {
            kind: theirs,
            ..from(1, "a")
        };
        let held = world.hold(0, held);
        let wanted = AcquireRequest {
            kind: ours,
            blocked: vec![Context::from_u64(3), Context::from_u64(1)],
            ..from(2, "a")
        };
        if !is_refused {
            world.hold(0, wanted);
            continue;
        }
        let ticket = world.acquire(0, wanted.clone());
        let (outcome, took) = world.outcome_within(0, ticket, Duration::ZERO).expect("at once");
        assert_eq!(took, Duration::ZERO);
        let several = vec![from(2, "b"), wanted.clone()];
        for refused in [error(outcome), world.refused_at_once(several)] {
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{theirs:?}, {ours:?}");
            assert!(refused.message().contains("steadlock.aio"), "{refused}");
        }
        // After the release, it does not matter that the holder's context is blocked.
        world.release(0, held.lease);
        world.hold(0, wanted);
    }
    // A single attempt blocks no caller for long. Its answer is that the lock is held.
    let mut world = World::new(1);
    world.hold(0, from(1, "a"));
    let once = AcquireRequest {
        wait: Some(Duration::ZERO),
        blocked: vec![Context::from_u64(1)],
        ..from(2, "a")
    };
    let ticket = world.acquire(0, once);
    assert_eq!(error(world.outcome(0, ticket)).kind(), ErrorKind::LockTimeout);
}
