//! Networks that are so slow that each grant arrives after its deadline. After several such grants, callers get an
//! error that says so.

use std::collections::BTreeMap;
use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, CallId, Config, Error, ErrorKind, Event, Instant, Kind, NodeId, Outcome, Permits, Reply, Script,
    Session, Ticket, Transmit,
};

use crate::world::{Seeded, World, config, error, fixed, granted, ms, wants};

/// Servers that grant everything, behind a slow network.
struct Slow {
    now: Instant,
    session: Session,
    round_trip: Duration,
    arriving: BTreeMap<(Instant, CallId), Reply>,
    calls: Vec<Script>,
    outcomes: Vec<(Instant, Ticket, Outcome)>,
}

impl Slow {
    fn new(round_trip: Duration) -> Self {
        Self::of(1, round_trip)
    }

    fn of(primaries: u16, round_trip: Duration) -> Self {
        let mut seed = Seeded(7);
        let config = Config {
            primaries,
            ..config(&mut seed)
        };
        let now = Instant::ZERO + Duration::from_secs(1_000);
        let mut session = Session::new(config, Box::new(seed));
        (0..primaries).for_each(|node| session.on_connected(NodeId(node), now));
        Self {
            now,
            session,
            round_trip,
            arriving: BTreeMap::new(),
            calls: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    fn drain(&mut self) {
        while let Some(transmit) = self.session.poll_transmit() {
            let Transmit::Call(call) = transmit else { continue };
            self.session.on_sent(call.id, self.now);
            self.calls.push(call.script);
            let reply = Reply::Array(vec![Reply::Int(1), Reply::Int(0)]);
            let reply = match call.script {
                Script::LockRelease | Script::MutexRelease => reply,
                _ => Reply::Array(vec![Reply::Int(1)]),
            };
            self.arriving.insert((self.now + self.round_trip, call.id), reply);
        }
        while let Some(event) = self.session.poll_event() {
            if let Event::Completed { ticket, outcome } = event {
                self.outcomes.push((self.now, ticket, outcome));
            }
        }
    }

    fn acquire(&mut self, request: AcquireRequest) -> Ticket {
        let ticket = self.session.acquire(request, self.now);
        self.drain();
        ticket
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let arrival = self.arriving.keys().next().map(|(at, _)| *at);
            let due = self.session.poll_timeout();
            let Some(next) = [arrival, due].into_iter().flatten().min().filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let ((_, call), reply) = self.arriving.pop_first().unwrap();
                self.session.on_reply(call, Ok(reply), self.now);
            } else {
                self.session.on_timeout(self.now);
            }
            self.drain();
        }
        self.now = end;
    }

    /// Returns the outcome of a ticket within a minute, and the time until then.
    fn outcome(&mut self, ticket: Ticket) -> (Outcome, Duration) {
        let start = self.now;
        for _ in 0..60_000 {
            let found = self.outcomes.iter().find(|(_, of, _)| *of == ticket);
            if let Some((at, _, outcome)) = found {
                return (outcome.clone(), at.saturating_since(start));
            }
            self.run_for(ms(1));
        }
        panic!("{ticket:?} waits for ever");
    }

    fn refusal(&mut self, ticket: Ticket) -> (Error, Duration) {
        let (outcome, took) = self.outcome(ticket);
        (error(outcome), took)
    }
}

fn of_kind(kind: Kind, wait: Option<u64>) -> AcquireRequest {
    AcquireRequest {
        kind,
        lease: fixed(100),
        wait: wait.map(ms),
        ..wants("a")
    }
}

fn kinds() -> [Kind; 6] {
    let permits = Kind::Semaphore(Permits::new(1, 2).unwrap());
    [Kind::Lock, Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, permits]
}

fn says_what_to_change(refused: &Error) {
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    let message = refused.message();
    assert!(message.contains("the answer took 100ms"), "{refused}");
    assert!(message.ends_with("the lease must be longer than 122ms"), "{refused}");
}

#[test]
fn a_wait_without_bound_ends_whatever_the_kind() {
    for kind in kinds() {
        let mut slow = Slow::new(ms(100));
        let ticket = slow.acquire(of_kind(kind, None));
        let (refused, took) = slow.refusal(ticket);
        says_what_to_change(&refused);
        assert!(ms(500) < took && took < ms(2_500), "{kind:?}: {took:?}");
        slow.run_for(Duration::from_secs(10));
        assert!(slow.session.is_empty(), "{kind:?}");
    }
}

#[test]
fn a_single_attempt_ends_so_too() {
    for kind in kinds() {
        let mut slow = Slow::new(ms(100));
        let ticket = slow.acquire(of_kind(kind, Some(0)));
        let (refused, took) = slow.refusal(ticket);
        says_what_to_change(&refused);
        assert!(took < ms(3_000), "{kind:?}: {took:?}");
    }
}

#[test]
fn a_bounded_wait_with_late_grants_asks_less_and_less_often() {
    for kind in kinds() {
        let mut slow = Slow::new(ms(100));
        let ticket = slow.acquire(of_kind(kind, Some(5_000)));
        let (refused, took) = slow.refusal(ticket);
        says_what_to_change(&refused);
        assert!(ms(5_000) <= took && took <= ms(5_040), "{kind:?}: {took:?}");
        assert!(slow.calls.len() < 40, "{kind:?}: {:?}", slow.calls);
    }
}

#[test]
fn a_wait_that_ends_after_one_late_grant_says_what_to_change() {
    let mut slow = Slow::new(ms(100));
    let ticket = slow.acquire(of_kind(Kind::Lock, Some(150)));
    let (refused, _) = slow.refusal(ticket);
    says_what_to_change(&refused);
}

#[test]
fn a_network_that_is_slow_for_a_while_ends_no_wait() {
    for wait in [None, Some(0), Some(5_000)] {
        let mut slow = Slow::new(ms(100));
        let ticket = slow.acquire(of_kind(Kind::Lock, wait));
        slow.run_for(ms(350));
        slow.round_trip = ms(1);
        granted(slow.outcome(ticket).0);
    }
}

#[test]
fn waiters_behind_it_without_a_longer_lease_fail_with_it() {
    let mut slow = Slow::new(ms(100));
    let first = slow.acquire(of_kind(Kind::Lock, None));
    let behind = [100, 110, 1_000].map(|lease| AcquireRequest {
        lease: fixed(lease),
        ..of_kind(Kind::Lock, None)
    });
    let [same, longer, long] = behind.map(|request| slow.acquire(request));
    let (_, took) = slow.refusal(first);
    let (refused, later) = slow.refusal(same);
    says_what_to_change(&refused);
    assert_eq!(later, Duration::ZERO, "after {took:?}");
    let (refused, _) = slow.refusal(longer);
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    granted(slow.outcome(long).0);
}

#[test]
fn max_hold_may_be_what_is_too_short() {
    let mut slow = Slow::new(ms(100));
    let ticket = slow.acquire(AcquireRequest {
        max_hold: Some(ms(100)),
        ..wants("a")
    });
    let (refused, _) = slow.refusal(ticket);
    assert!(
        refused.message().ends_with("max_hold must be longer than 122ms"),
        "{refused}"
    );
}

#[test]
fn two_clients_that_release_late_grants_end_each_others_waits_no_later() {
    let mut world = World::new(2);
    world.reply_latency = ms(100);
    let tickets = [0, 1].map(|client| world.acquire(client, of_kind(Kind::Lock, None)));
    for (client, ticket) in tickets.into_iter().enumerate() {
        let (outcome, took) = world.outcome_within(client, ticket, Duration::from_secs(30)).unwrap();
        let refused = error(outcome);
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused} after {took:?}");
        assert!(refused.message().contains("the lease must be longer"), "{refused}");
    }
    world.run_for(Duration::from_secs(10));
    assert!(world.server.records.is_empty());
}

#[test]
fn several_locks_that_never_last_until_all_are_acquired_are_refused() {
    for (wait, longest) in [(None, ms(5_000)), (Some(3_000), ms(3_100))] {
        let mut slow = Slow::new(ms(100));
        let member = |name: &str| AcquireRequest {
            lease: fixed(150),
            wait: wait.map(ms),
            ..wants(name)
        };
        let ticket = slow.session.acquire_all(vec![member("a"), member("b")], slow.now);
        slow.drain();
        let (refused, took) = slow.refusal(ticket);
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        assert!(refused.message().contains("the lease must be longer"), "{refused}");
        assert!(took <= longest, "{took:?}");
        slow.run_for(Duration::from_secs(10));
        assert!(slow.session.is_empty());
    }
    // The grant of one of these locks alone is already too late.
    let mut slow = Slow::new(ms(100));
    let ticket = slow.session.acquire_all(
        vec![
            of_kind(Kind::Lock, None),
            AcquireRequest {
                lease: fixed(100),
                ..wants("b")
            },
        ],
        slow.now,
    );
    slow.drain();
    says_what_to_change(&slow.refusal(ticket).0);
}

#[test]
fn a_majority_that_answers_late_in_every_round_is_reported() {
    let message = "the primaries take 100ms to answer, and with a lease of 100ms a round waits 50ms; the lease must \
                   be longer than 1s";
    for (wait, longest) in [(None, ms(4_000)), (Some(3_000), ms(3_040))] {
        let mut slow = Slow::of(3, ms(100));
        let ticket = slow.acquire(of_kind(Kind::Mutex, wait));
        let (refused, took) = slow.refusal(ticket);
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        assert!(refused.message().ends_with(message), "{refused}");
        assert!(ms(500) < took && took <= longest, "{took:?}");
        slow.run_for(Duration::from_secs(10));
        assert!(slow.session.is_empty());
    }
    // A late answer to a single attempt is used for the error of the next one.
    let mut slow = Slow::of(3, ms(100));
    let first = slow.acquire(of_kind(Kind::Mutex, Some(0)));
    let (refused, _) = slow.refusal(first);
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    slow.run_for(ms(100));
    let next = slow.acquire(of_kind(Kind::Mutex, Some(0)));
    let (refused, _) = slow.refusal(next);
    assert!(refused.message().ends_with(message), "{refused}");
}

#[test]
fn a_majority_that_is_slow_for_a_while_ends_no_wait() {
    let mut slow = Slow::of(3, ms(100));
    let ticket = slow.acquire(of_kind(Kind::Mutex, None));
    slow.run_for(ms(300));
    slow.round_trip = ms(1);
    granted(slow.outcome(ticket).0);
}

#[test]
fn a_majority_that_answers_within_half_a_second_at_the_most_needs_other_primaries() {
    let mut slow = Slow::of(3, ms(600));
    let ticket = slow.acquire(AcquireRequest {
        kind: Kind::Mutex,
        ..wants("a")
    });
    let (refused, _) = slow.refusal(ticket);
    assert!(
        refused.message().ends_with("they have to answer within 500ms"),
        "{refused}"
    );
}

#[test]
fn a_short_wait_for_a_majority_is_not_over_before_its_first_answers() {
    for (round_trip, callers) in [(30, 1), (30, 4), (5, 4)] {
        let mut slow = Slow::of(3, ms(round_trip));
        let short = AcquireRequest {
            kind: Kind::Mutex,
            wait: Some(ms(2)),
            ..wants("a")
        };
        let tickets: Vec<Ticket> = (0..callers).map(|_| slow.acquire(short.clone())).collect();
        slow.run_for(ms(100));
        let is_granted = |ticket: &Ticket| {
            slow.outcomes
                .iter()
                .any(|(_, of, outcome)| of == ticket && matches!(outcome, Outcome::Granted(_)))
        };
        assert_eq!(tickets.iter().filter(|ticket| is_granted(ticket)).count(), 1);
        for (at, ticket, outcome) in &slow.outcomes {
            let is_refused = matches!(outcome, Outcome::NotGranted(error) if error.kind() == ErrorKind::LockTimeout);
            assert!(is_refused || is_granted(ticket), "{at:?}: {outcome:?}");
        }
        assert_eq!(slow.outcomes.len(), callers);
    }
}
