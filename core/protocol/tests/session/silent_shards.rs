//! Acquisitions while one primary of a cluster does not answer.

use std::sync::Arc;

use steadlock_protocol::{
    AcquireRequest, Breaker, Event, NodeId, OnUnavailable, Outcome, Primary, Reply, Session, slot,
};

use crate::world::{NODE, Seeded, at, config, error, first_answer, sent, wants};

/// Returns a session with a cluster of two primaries. The first one has the slot of "a".
fn of_a_cluster() -> Session {
    let mut seed = Seeded(7);
    let mut config = config(&mut seed);
    config.breaker = Some(Breaker::DEFAULT);
    let mut session = Session::new(config, Box::new(seed));
    session.on_connected(NODE, at(0));
    session.on_slots(NODE, slots(1), at(0));
    session
}

fn slots(of_a: u16) -> Arc<[u16]> {
    let mut slots = vec![2_u16; 16_384];
    slots[usize::from(slot(b"a"))] = of_a;
    slots.into()
}

#[test]
fn the_breaker_of_one_shard_leaves_the_others_alone() {
    let mut session = of_a_cluster();
    let primary = Primary {
        node: NodeId(0),
        number: 1,
    };
    for _ in 0..5 {
        session.on_primary(primary, Some(&"refused".into()), at(1));
    }
    let refusal = error(first_answer(&mut session, wants("a"), 2).expect("at once"));
    assert!(refusal.message().ends_with(": refused"), "{refusal}");
    sent(&mut session, at(2));
    assert_eq!(first_answer(&mut session, wants("b"), 2), None);
    let (calls, _) = sent(&mut session, at(2));
    assert_eq!(calls.len(), 1, "the server is asked: {calls:?}");
    session.on_reply(
        calls[0].id,
        Ok(Reply::Array(vec![Reply::Int(1), Reply::Bytes(b"7".to_vec())])),
        at(3),
    );
    // Another primary has the slot now, and its breaker is closed.
    session.on_slots(NODE, slots(3), at(4));
    while session.poll_event().is_some() {}
    assert_eq!(first_answer(&mut session, wants("a"), 4), None);
}

/// Returns a table in which this primary has all slots.
fn all_slots_of(primary: u16) -> Arc<[u16]> {
    vec![primary; 16_384].into()
}

fn open_breaker(session: &mut Session, number: u16, now: u64) {
    let primary = Primary { node: NODE, number };
    for _ in 0..5 {
        session.on_primary(primary, Some(&"refused".into()), at(now));
    }
}

#[test]
fn a_primary_that_lost_its_slots_and_has_them_again_is_asked_again() {
    let mut session = of_a_cluster();
    open_breaker(&mut session, 1, 1);
    assert!(first_answer(&mut session, wants("a"), 2).is_some());
    // The primary's replica is promoted, and later the primary gets its slots back.
    session.on_slots(NODE, all_slots_of(7), at(3));
    session.on_timeout(at(20_000));
    session.on_slots(NODE, all_slots_of(1), at(30_000));
    assert_eq!(first_answer(&mut session, wants("a"), 30_001), None);
    assert_eq!(sent(&mut session, at(30_001)).0.len(), 1);
}

#[test]
fn a_probe_whose_slot_moved_leaves_no_breaker_open() {
    let mut session = of_a_cluster();
    open_breaker(&mut session, 1, 1);
    assert!(first_answer(&mut session, wants("a"), 2).is_some());
    session.on_timeout(at(10_001));
    let (probes, _) = sent(&mut session, at(10_001));
    assert_eq!(probes.len(), 1, "{probes:?}");
    // The slot of "a" moves to the other primary, and the first one keeps all other slots.
    let mut moved = vec![1_u16; 16_384];
    moved[usize::from(slot(b"a"))] = 2;
    session.on_slots(NODE, moved.into(), at(10_002));
    let free = Ok(Reply::Array(vec![Reply::Int(1)]));
    session.on_reply(probes[0].id, free, at(10_003));
    assert_eq!(first_answer(&mut session, wants("b"), 10_004), None);
}

#[test]
fn a_request_without_a_degraded_lease_gets_none_when_the_slot_moves_to_a_silent_primary() {
    for policy in [OnUnavailable::Fail, OnUnavailable::Skip] {
        let mut session = of_a_cluster();
        open_breaker(&mut session, 2, 1);
        let request = AcquireRequest {
            on_unavailable: policy,
            ..wants("a")
        };
        let tickets = [0, 1].map(|_| session.acquire(request.clone(), at(2)));
        sent(&mut session, at(2));
        session.on_slots(NODE, all_slots_of(2), at(3));
        let reported: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
        assert_eq!(reported.len(), tickets.len(), "{reported:?}");
        let is_refusal = |event: &Event| {
            use Event::Completed;
            matches!(
                event,
                Completed {
                    outcome: Outcome::Failed(_) | Outcome::NotGranted(_),
                    ..
                }
            )
        };
        assert!(reported.iter().all(is_refusal), "{reported:?}");
    }
}
