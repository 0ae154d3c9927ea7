//! Locks that a majority of primaries holds, while connections to the primaries open and close.

use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, CallId, Config, Context, Error, ErrorKind, Event, Grant, Instant, LostReason, NodeId, Outcome,
    ReleaseOutcome, Reply, Script, Session, Ticket, Transmit,
};

use crate::world::{Seeded, config, error, fixed, granted, ms, wants};

/// A primary: the record of one name, and the connection of one client.
#[derive(Default)]
struct Primary {
    is_up: bool,
    /// Whether the primary receives calls and answers none.
    is_stuck: bool,
    /// Whether the primary runs calls, but its answers stay in transit.
    is_slow: bool,
    owner: Option<String>,
    unanswered: Vec<CallId>,
    under_way: Vec<(CallId, Reply)>,
}

impl Primary {
    fn run(&mut self, script: Script, owner: &str) -> Reply {
        let is_mine = self.owner.as_deref() == Some(owner);
        Reply::Array(match (script, &self.owner) {
            (Script::MutexAcquire, Some(other)) if !is_mine => {
                vec![
                    Reply::Int(0),
                    Reply::Int(9_000),
                    Reply::Bytes(other.clone().into_bytes()),
                ]
            }
            (Script::MutexAcquire, _) => {
                self.owner = Some(owner.into());
                vec![Reply::Int(1), Reply::Bytes(Vec::new())]
            }
            (Script::MutexRelease, Some(_)) if is_mine => {
                self.owner = None;
                vec![Reply::Int(1), Reply::Int(0)]
            }
            (Script::MutexRenew | Script::MutexRelease, owner) => {
                vec![Reply::Int(if is_mine { 1 } else { 2 * i64::from(owner.is_some()) })]
            }
            (other, _) => panic!("the model does not know {other:?}"),
        })
    }
}

/// One client and its primaries. Answers take no time.
struct World {
    now: Instant,
    session: Session,
    primaries: Vec<Primary>,
    events: Vec<(Instant, Event)>,
}

impl World {
    /// Makes a world with this many primaries, none of them connected.
    fn new(primaries: u16) -> Self {
        Self::with(primaries, |_| {})
    }

    fn with(primaries: u16, change: impl Fn(&mut Config)) -> Self {
        let mut seed = Seeded(0x9E37_79B9);
        let mut config = Config {
            primaries,
            ..config(&mut seed)
        };
        change(&mut config);
        Self {
            now: Instant::ZERO + Duration::from_secs(1_000),
            session: Session::new(config, Box::new(seed)),
            primaries: (0..primaries).map(|_| Primary::default()).collect(),
            events: Vec::new(),
        }
    }

    fn connect(&mut self, nodes: impl IntoIterator<Item = u16>) {
        for node in nodes {
            self.primaries[usize::from(node)].is_up = true;
            self.session.on_connected(NodeId(node), self.now);
            self.drain();
        }
    }

    fn disconnect(&mut self, nodes: impl IntoIterator<Item = u16>) {
        for node in nodes {
            self.primaries[usize::from(node)].is_up = false;
            self.session.on_disconnected(NodeId(node), "refused", self.now);
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(transmit) = self.session.poll_transmit() {
            let Transmit::Call(call) = transmit else { continue };
            let primary = &mut self.primaries[usize::from(call.node.0)];
            assert!(primary.is_up, "asked without a connection: {call:?}");
            self.session.on_sent(call.id, self.now);
            if primary.is_stuck {
                primary.unanswered.push(call.id);
                continue;
            }
            // The owner id is the first argument of a release. In all other calls it follows the lease.
            let position = usize::from(call.script != Script::MutexRelease);
            let owner = call.args.get(position).expect("an owner");
            let reply = primary.run(call.script, std::str::from_utf8(owner).unwrap());
            if primary.is_slow {
                primary.under_way.push((call.id, reply));
                continue;
            }
            self.session.on_reply(call.id, Ok(reply), self.now);
        }
        while let Some(event) = self.session.poll_event() {
            self.events.push((self.now, event));
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.session.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.session.on_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    fn acquire(&mut self, wait: Option<Duration>) -> Ticket {
        let request = AcquireRequest { wait, ..wants("a") };
        let ticket = self.session.acquire(request, self.now);
        self.drain();
        ticket
    }

    fn try_once(&mut self) -> Ticket {
        self.acquire(Some(Duration::ZERO))
    }

    fn release(&mut self, grant: &Grant) -> Option<Outcome> {
        let ticket = self.session.release(grant.lease, self.now);
        self.drain();
        self.outcome(ticket)
    }

    /// Returns the outcome of a ticket, if it is done.
    fn outcome(&self, ticket: Ticket) -> Option<Outcome> {
        self.events.iter().find_map(|(_, event)| match event {
            Event::Completed { ticket: of, outcome } if *of == ticket => Some(outcome.clone()),
            _ => None,
        })
    }

    /// Runs until a ticket is refused. Returns the error, and how long that took.
    fn refusal(&mut self, ticket: Ticket) -> (Error, Duration) {
        let start = self.now;
        while self.outcome(ticket).is_none() {
            self.run_for(ms(1));
        }
        let error = error(self.outcome(ticket).unwrap());
        (error, self.now.saturating_since(start))
    }

    fn records(&self) -> usize {
        let holds = |primary: &&Primary| primary.owner.is_some();
        self.primaries.iter().filter(holds).count()
    }

    fn lost(&self) -> Vec<LostReason> {
        let lost = |(_, event): &(Instant, Event)| match event {
            Event::Lost { reason, .. } => Some(*reason),
            _ => None,
        };
        self.events.iter().filter_map(lost).collect()
    }

    /// Delivers the answers of a primary that are in transit. Its next answers take no time.
    fn answers_arrive(&mut self, node: usize) {
        self.primaries[node].is_slow = false;
        for (call, reply) in std::mem::take(&mut self.primaries[node].under_way) {
            self.session.on_reply(call, Ok(reply), self.now);
        }
        self.drain();
    }

    fn extend(&mut self, grant: &Grant, by: Duration) -> Ticket {
        let by = steadlock_protocol::LeaseDuration::fixed(by).unwrap();
        let ticket = self.session.extend(grant.lease, Some(by), self.now);
        self.drain();
        ticket
    }

    /// Returns the last deadline that was reported for a lease.
    fn renewed(&self, grant: &Grant) -> Instant {
        let renewed = |(_, event): &(Instant, Event)| match event {
            Event::Renewed { lease, deadline } if *lease == grant.lease => Some(*deadline),
            _ => None,
        };
        let last = self.events.iter().filter_map(renewed).next_back();
        last.unwrap_or(grant.deadline)
    }
}

fn released() -> Option<Outcome> {
    Some(Outcome::Released(ReleaseOutcome::Released))
}

#[test]
fn a_single_attempt_is_granted_once_a_majority_is_connected() {
    let mut world = World::new(3);
    let ticket = world.try_once();
    world.run_for(ms(5));
    world.connect([2]);
    world.run_for(ms(5));
    assert_eq!((world.outcome(ticket), world.records()), (None, 1));
    world.connect([0]);
    let grant = granted(world.outcome(ticket).expect("two of three granted it"));
    // The deadline is that of the lease, counted from the first call: less 1 % for drift and 20 ms for late timers.
    assert_eq!(grant.deadline, world.now + ms(30_000 - 300 - 20 - 5));
    assert_eq!(world.release(&grant), released());
    assert_eq!(world.records(), 0);
    assert!(world.session.is_empty());
}

#[test]
fn a_single_attempt_between_two_connections_is_granted_on_the_next_one() {
    let mut world = World::new(5);
    world.connect(0..5);
    world.disconnect(0..5);
    let ticket = world.try_once();
    world.run_for(ms(20));
    world.connect(0..5);
    let grant = granted(world.outcome(ticket).expect("all granted it"));
    assert_eq!(world.records(), 5);
    assert_eq!(world.release(&grant), released());
    assert!(world.session.is_empty());
}

#[test]
fn a_primary_that_connects_late_joins_the_round() {
    let mut world = World::new(3);
    world.connect([0, 1]);
    let ticket = world.try_once();
    let grant = granted(world.outcome(ticket).expect("nobody waits for the third"));
    world.run_for(ms(700));
    world.connect([2]);
    assert_eq!(world.records(), 3);
    assert_eq!(world.release(&grant), released());
    assert_eq!(world.records(), 0);
    assert!(world.session.is_empty());
}

#[test]
fn a_primary_that_connects_after_the_lease_was_lost_or_released_is_not_asked() {
    for is_lost in [true, false] {
        let mut world = World::with(3, |config| {
            config.lease = steadlock_protocol::LeaseDuration::auto_renewed(ms(300)).unwrap()
        });
        world.connect([0, 1]);
        let ticket = world.try_once();
        let grant = granted(world.outcome(ticket).unwrap());
        if is_lost {
            world.disconnect([0, 1]);
            world.run_for(ms(300));
            assert_eq!(world.lost(), [LostReason::Expired]);
        } else {
            assert_eq!(world.release(&grant), released());
        }
        world.connect([2]);
        assert_eq!(world.primaries[2].owner, None);
    }
}

#[test]
fn a_hold_ends_with_its_majority_though_one_primary_renews_it() {
    let mut world = World::with(3, |config| {
        config.lease = steadlock_protocol::LeaseDuration::auto_renewed(ms(3_000)).unwrap()
    });
    world.connect(0..3);
    let ticket = world.try_once();
    let grant = granted(world.outcome(ticket).expect("all granted it"));
    world.disconnect([1, 2]);
    world.run_for(ms(2_900));
    assert_eq!((world.renewed(&grant), world.lost()), (grant.deadline, vec![]));
    world.run_for(ms(100));
    assert_eq!(world.lost(), [LostReason::Expired]);
}

#[test]
fn primaries_that_stay_away_do_not_delay_a_majority() {
    let mut world = World::new(5);
    world.connect(0..3);
    world.disconnect(3..5);
    let ticket = world.try_once();
    let grant = granted(world.outcome(ticket).expect("at once"));
    assert_eq!(world.release(&grant), released());

    // The missing primaries do not delay a refusal either, although they could still change the result.
    for others in [[true, true, true], [false, true, true]] {
        for (primary, is_held) in world.primaries.iter_mut().zip(others) {
            primary.owner = is_held.then(|| "another".into());
        }
        let ticket = world.try_once();
        let error = error(world.outcome(ticket).expect("at once"));
        assert_eq!(error.kind(), ErrorKind::LockTimeout);
        assert_eq!(error.holder().expect("the holder is known").owner, "another");
        assert!(!error.message().contains("0ns"), "{error}");
    }
    assert_eq!(world.records(), 2);
    assert!(world.session.is_empty());
}

#[test]
fn a_single_attempt_without_a_majority_is_unavailable_after_the_response_timeout() {
    for (lease, timeout) in [(30_000, 500), (1_000, 100), (300, 50)] {
        let mut world = World::with(5, |config| {
            config.lease = steadlock_protocol::LeaseDuration::auto_renewed(ms(lease)).unwrap()
        });
        world.connect(0..2);
        world.disconnect(2..5);
        let ticket = world.try_once();
        assert_eq!(world.records(), 2);
        let (error, took) = world.refusal(ticket);
        assert_eq!((error.kind(), took), (ErrorKind::Unavailable, ms(timeout)));
        assert!(error.message().contains("not connected (refused)"), "{error}");
        assert!(!error.message().contains("within"), "{error}");
        assert_eq!(world.records(), 0);
        assert!(world.session.is_empty());
        // The attempt is over for good.
        world.connect(2..5);
        assert_eq!(world.records(), 0);
    }
}

#[test]
fn a_wait_that_ends_while_primaries_are_away_is_unavailable_and_says_how_long_it_was() {
    let mut world = World::new(3);
    world.disconnect(0..3);
    let ticket = world.acquire(Some(ms(200)));
    let (error, took) = world.refusal(ticket);
    assert_eq!((error.kind(), took), (ErrorKind::Unavailable, ms(200)));
    assert!(
        error.message().contains("within 200ms: not connected (refused)"),
        "{error}"
    );
    assert!(world.session.is_empty());
}

#[test]
fn all_who_wait_here_have_what_the_primaries_answered_the_first_of_them() {
    let mut world = World::new(3);
    world.connect(0..3);
    for primary in &mut world.primaries {
        primary.owner = Some("other:1".into());
    }
    let first = world.acquire(None);
    let second = world.acquire(Some(ms(500)));
    let (refused, _) = world.refusal(second);
    assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}");
    for primary in &mut world.primaries {
        primary.owner = None;
    }
    world.run_for(ms(300));
    let grant = granted(world.outcome(first).expect("it was free"));

    // The primaries do not count as silent for a waiter while another waiter of its client asks again.
    let first = world.acquire(None);
    let second = world.acquire(Some(ms(500)));
    world.run_for(ms(490));
    for primary in &mut world.primaries {
        primary.is_slow = true;
    }
    world.release(&grant);
    let (refused, _) = world.refusal(second);
    assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}");
    assert_eq!(world.outcome(first), None);
}

#[test]
fn a_single_attempt_beside_a_waiter_reports_silent_primaries() {
    let mut world = World::new(3);
    world.connect(0..3);
    world.disconnect(0..3);
    world.acquire(None);
    world.run_for(ms(600));
    let ticket = world.try_once();
    let (refused, took) = world.refusal(ticket);
    assert_eq!((refused.kind(), took), (ErrorKind::Unavailable, ms(0)), "{refused}");
    assert!(refused.message().contains("refused"), "{refused}");
}

#[test]
fn a_waiter_is_served_as_soon_as_a_majority_is_connected() {
    let mut world = World::new(3);
    let ticket = world.acquire(None);
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.outcome(ticket), None);
    world.connect(0..2);
    world.run_for(ms(200));
    let grant = granted(world.outcome(ticket).expect("two of three granted it"));
    assert_eq!(world.release(&grant), released());
}

#[test]
fn a_cancelled_single_attempt_asks_no_primary_that_connects_later() {
    let mut world = World::new(3);
    world.connect([0]);
    let ticket = world.try_once();
    assert_eq!(world.records(), 1);
    world.session.cancel(ticket, world.now);
    world.drain();
    world.connect(1..3);
    assert_eq!((world.outcome(ticket), world.records()), (None, 0));
    assert!(world.session.is_empty());
}

#[test]
fn a_stuck_primary_and_one_that_is_away_together_cost_one_response_timeout() {
    let mut world = World::new(3);
    world.connect(0..2);
    world.primaries[1].is_stuck = true;
    let ticket = world.try_once();
    let (error, took) = world.refusal(ticket);
    assert_eq!((error.kind(), took), (ErrorKind::Unavailable, ms(500)));
    assert_eq!(world.records(), 0);
}

#[test]
fn answers_that_come_when_the_lease_is_over_grant_nothing() {
    let lease = ms(300);
    let mut world = World::with(3, |config| {
        config.lease = steadlock_protocol::LeaseDuration::auto_renewed(lease).unwrap();
    });
    world.connect(0..3);
    world.primaries.iter_mut().for_each(|primary| primary.is_slow = true);
    let ticket = world.try_once();
    assert_eq!(world.records(), 3);
    // The process is paused in the meantime.
    world.now += lease;
    (0..3).for_each(|node| world.answers_arrive(node));
    // The late grants were released, and the client asked for the lock again.
    let grant = granted(world.outcome(ticket).expect("all granted it then"));
    assert_eq!(grant.deadline, world.now + lease - ms(3 + 20));
    assert_eq!(world.release(&grant), released());
    world.run_for(ms(1_000));
    assert_eq!(world.records(), 0);
    assert!(world.session.is_empty());
}

#[test]
fn an_extension_tells_the_deadline_of_the_majority_not_that_of_a_member() {
    let mut world = World::new(3);
    world.connect(0..3);
    let ticket = world.try_once();
    let grant = granted(world.outcome(ticket).unwrap());
    world.primaries.iter_mut().for_each(|primary| primary.is_slow = true);
    let asked = world.now;
    let extension = world.extend(&grant, Duration::from_secs(60));
    world.answers_arrive(0);
    // The first primary extends its record and then loses it. Another extension discovers the loss.
    world.primaries[0].owner = None;
    world.extend(&grant, Duration::from_secs(61));
    world.run_for(ms(100));
    world.answers_arrive(1);
    assert_eq!(
        world.outcome(extension),
        None,
        "only one of the two that are left was extended"
    );
    assert_eq!(world.renewed(&grant), grant.deadline);
    world.answers_arrive(2);
    let until = asked + ms(60_000 - 600 - 20);
    assert_eq!(world.outcome(extension), Some(Outcome::Extended(until)));
    let renewed = world.renewed(&grant);
    // The other extension was sent 100 ms later, with a TTL that is 100 ms shorter.
    assert_eq!(renewed, asked + ms(61_000 - 609 - 20), "the other one continues");
}

#[test]
fn an_extension_of_what_is_lost_meanwhile_is_lost_too() {
    let mut world = World::new(3);
    world.connect(0..3);
    let ticket = world.try_once();
    let grant = granted(world.outcome(ticket).unwrap());
    world.primaries.iter_mut().for_each(|primary| primary.is_slow = true);
    for node in [0, 1] {
        world.primaries[node].owner = None;
    }
    let extension = world.extend(&grant, Duration::from_secs(60));
    (0..3).for_each(|node| world.answers_arrive(node));
    assert_eq!(world.lost(), [LostReason::Removed]);
    let refusal = error(world.outcome(extension).expect("it cannot be extended"));
    assert_eq!(refusal.kind(), ErrorKind::LockLost, "{refusal}");
    assert_eq!(refusal.reason(), Some(LostReason::Removed));
}

#[test]
fn silence_for_a_waiter_behind_a_local_hold_counts_from_its_first_attempt() {
    let mut world = World::new(3);
    world.connect(0..3);
    let ticket = world.try_once();
    let grant = granted(world.outcome(ticket).unwrap());
    let waiters = [world.acquire(None), world.acquire(None)];
    world.run_for(Duration::from_secs(100));
    world.primaries.iter_mut().for_each(|primary| primary.is_stuck = true);
    world.session.release(grant.lease, world.now);
    world.drain();
    world.run_for(Duration::from_secs(29));
    assert_eq!(waiters.map(|waiter| world.outcome(waiter)), [None, None]);
    // The same silence counts for the second waiter, because the first one asks for both.
    for waiter in waiters {
        let (refusal, took) = world.refusal(waiter);
        assert_eq!(refusal.kind(), ErrorKind::Unavailable);
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
}

#[test]
fn a_holder_that_would_wait_for_itself_is_refused_at_once() {
    let mut world = World::new(3);
    world.connect(0..3);
    let request = |context, wait| AcquireRequest {
        wait,
        ..crate::world::from(context, "a")
    };
    let first = world.session.acquire(request(1, None), world.now);
    world.drain();
    let grant = granted(world.outcome(first).unwrap());
    for (context, wait, kind) in [
        (1, None, ErrorKind::InvalidArgument),
        (1, Some(ms(5_000)), ErrorKind::InvalidArgument),
        // A caller that does not wait gets the answer that the lock is held.
        (1, Some(Duration::ZERO), ErrorKind::LockTimeout),
        (2, Some(Duration::ZERO), ErrorKind::LockTimeout),
    ] {
        let ticket = world.session.acquire(request(context, wait), world.now);
        world.drain();
        let refusal = error(world.outcome(ticket).expect("at once"));
        assert_eq!(refusal.kind(), kind, "{context}: {refusal}");
    }
    let other = world.session.acquire(request(2, None), world.now);
    world.drain();
    assert_eq!(world.outcome(other), None);
    assert_eq!(world.release(&grant), released());
    world.run_for(ms(200));
    granted(world.outcome(other).expect("it was only behind the first"));
}

#[test]
fn a_wait_that_stops_the_holder_of_a_majority_is_refused_at_once() {
    let mut world = World::new(3);
    world.connect(0..3);
    let request = |context, blocked: &[u64], wait| AcquireRequest {
        wait,
        blocked: blocked.iter().map(|context| Context::from_u64(*context)).collect(),
        ..crate::world::from(context, "a")
    };
    let first = world.session.acquire(request(1, &[], None), world.now);
    world.drain();
    let grant = granted(world.outcome(first).unwrap());
    for (wait, kind) in [
        (None, ErrorKind::InvalidArgument),
        (Some(ms(5_000)), ErrorKind::InvalidArgument),
        // A single attempt blocks no caller for long. Its answer is that the lock is held.
        (Some(Duration::ZERO), ErrorKind::LockTimeout),
    ] {
        let ticket = world.session.acquire(request(2, &[3, 1], wait), world.now);
        world.drain();
        let refusal = error(world.outcome(ticket).expect("at once"));
        assert_eq!(refusal.kind(), kind, "{refusal}");
        assert_eq!(
            kind == ErrorKind::InvalidArgument,
            refusal.message().contains("steadlock.aio"),
            "{refusal}"
        );
    }
    // The other blocked contexts hold nothing, and do not matter.
    let waiter = world.session.acquire(request(2, &[3], None), world.now);
    world.drain();
    assert_eq!(world.outcome(waiter), None);
    assert_eq!(world.release(&grant), released());
    world.run_for(ms(200));
    granted(world.outcome(waiter).expect("it was only behind the first"));
}

#[test]
fn a_fixed_lease_of_a_majority_is_forgotten_once_its_loss_was_reported() {
    let mut world = World::new(3);
    world.connect(0..3);
    let request = AcquireRequest {
        lease: fixed(1_000),
        ..wants("a")
    };
    let ticket = world.session.acquire(request, world.now);
    world.drain();
    let grant = granted(world.outcome(ticket).expect("an outcome"));
    world.run_for(ms(1_100));
    assert_eq!(world.lost(), [LostReason::Expired]);
    assert!(!world.session.has_lease(grant.lease));
    assert!(world.session.is_empty(), "{} entries", world.session.len());
    let outcome = world.release(&grant).expect("an outcome");
    assert_eq!(error(outcome).kind(), ErrorKind::NotOwner);
}
