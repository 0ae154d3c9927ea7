//! Calls that wait for their node, and the destinations of those that were sent.
//!
//! All calls of one slot and lane go to one node at a time. While some are on their way to another node than the slot's
//! owner, the others wait, so that all run in their order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Call, CallError, CallId, Instant, Lane, Script, hash_tag, slot};

use crate::transport::TransportEvent;
use crate::transport::redis::address::Address;
use crate::transport::redis::lane::TurnedAway;
use crate::transport::redis::resp::ServerError;
use crate::world::{Defect, World};

/// The base and the limit of the pause before a call that was turned away is sent again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// The number of redirections that a call follows without a pause.
const FOLLOWED: u32 = 2;
/// The error of a node that may not serve any slot.
const DOWN: &str = "CLUSTERDOWN";
/// The errors of a node whose slot belongs to another node now, or is migrating to one.
const REDIRECTIONS: [&str; 2] = ["MOVED", "ASK"];

/// The calls of one slot and lane.
pub(super) type Flow = (u16, Lane);

/// A call that waits.
pub(super) struct Waiting {
    pub(super) call: Call,
    pub(super) flow: Flow,
    /// The node to ask although the slot is still migrating to it.
    pub(super) asking: Option<Address>,
    since: Instant,
    not_before: Instant,
    tries: u32,
    /// The last error of a node.
    said: Option<ServerError>,
}

/// A call that was sent.
struct Sent {
    flow: Flow,
    key: Arc<[u8]>,
    script: Script,
    since: Instant,
    tries: u32,
    /// An earlier error of a node that made the call wait.
    said: Option<ServerError>,
}

/// The node to which a slot's calls were sent, and their number.
struct Way {
    node: Address,
    count: usize,
}

/// The next step of a waiting call.
pub(super) enum Step {
    /// The call is sent to this node.
    Go(Address),
    /// The call waits, and so do the calls behind it in its slot.
    Stay,
}

pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    sent: BTreeMap<CallId, Sent>,
    ways: BTreeMap<Flow, Way>,
    /// The time after which a waiting call is answered.
    patience: Duration,
    world: World,
}

impl Queue {
    pub(super) fn new(patience: Duration, world: &World) -> Self {
        Self {
            world: world.clone(),
            waiting: VecDeque::new(),
            sent: BTreeMap::new(),
            ways: BTreeMap::new(),
            patience,
        }
    }

    pub(super) fn push(&mut self, call: Call) {
        let key = call.keys.first().map_or(&[][..], |key| key);
        self.waiting.push_back(Waiting {
            flow: (slot(key), call.lane),
            call,
            asking: None,
            // Set by the first flush, because `push` reads no clock.
            since: Instant::ZERO,
            not_before: Instant::ZERO,
            tries: 0,
            said: None,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of calls that were sent to a node and have no reply.
    pub(super) fn on_the_way_to(&self, node: &Address) -> usize {
        let ways = self.ways.values().filter(|way| way.node == *node);
        ways.map(|way| way.count).sum()
    }

    /// Calls `step` for each call that may be sent, in order, and `go` for those that are sent.
    pub(super) fn flush(
        &mut self,
        now: Instant,
        mut step: impl FnMut(&Waiting) -> Step,
        mut go: impl FnMut(&Address, Call, bool),
    ) {
        if self.waiting.is_empty() {
            return;
        }
        let mut blocked = BTreeSet::new();
        let mut kept = VecDeque::new();
        for mut waiting in self.waiting.drain(..) {
            if waiting.since == Instant::ZERO {
                waiting.since = now;
            }
            // A call that waits for its next attempt blocks no other call. If a later call undoes it, `answered` drops
            // it.
            if now < waiting.not_before {
                kept.push_back(waiting);
                continue;
            }
            waiting.not_before = Instant::ZERO;
            let flow = waiting.flow;
            let is_overtaken = waiting.said.is_some() && !self.world.has(Defect::UndoneCallsRunLate) && {
                let later = (Bound::Excluded(waiting.call.id), Bound::Unbounded);
                self.sent
                    .range(later)
                    .any(|(id, sent)| waiting.is_overtaken_by(*id, sent))
            };
            let holds_up_all = !blocked.is_empty() && self.world.has(Defect::StuckShardDelaysOthers);
            if is_overtaken || holds_up_all || blocked.contains(&flow) {
                kept.push_back(waiting);
                continue;
            }
            let node = match step(&waiting) {
                Step::Go(node) if self.ways.get(&flow).is_none_or(|way| way.node == node) => node,
                Step::Go(_) | Step::Stay => {
                    blocked.insert(flow);
                    kept.push_back(waiting);
                    continue;
                }
            };
            let way = self.ways.entry(flow).or_insert_with(|| Way {
                node: node.clone(),
                count: 0,
            });
            way.count += 1;
            let asking = waiting.asking.is_some();
            let Waiting {
                call,
                since,
                tries,
                said,
                ..
            } = waiting;
            let sent = Sent {
                flow,
                key: call.keys.first().cloned().unwrap_or_else(|| Arc::from([])),
                script: call.script,
                since,
                tries,
                said,
            };
            self.sent.insert(call.id, sent);
            go(&node, call, asking);
        }
        self.waiting = kept;
    }

    /// Handles the reply to a call. An earlier call of the same lock that was turned away must not run after it,
    /// because the later call may be the one that undoes it.
    pub(super) fn answered(&mut self, id: CallId, events: &mut Vec<TransportEvent>) {
        let Some(sent) = self.left(id) else { return };
        if self.world.has(Defect::UndoneCallsRunLate) {
            return;
        }
        let overtaken = |waiting: &Waiting| waiting.said.is_some() && waiting.is_overtaken_by(id, &sent);
        if !self.waiting.iter().any(overtaken) {
            return;
        }
        self.waiting.retain(|waiting| {
            let is_over = overtaken(waiting);
            if is_over {
                events.push(waiting.answer(|| CallError::Disconnected("another call of its lock came before".into())));
            }
            !is_over
        });
    }

    /// Handles a call that a node did not run. The call is sent again, to `asking` or to the owner of its slot. A
    /// cluster can be down for long, so its error becomes the answer after a few attempts.
    pub(super) fn turned_away(
        &mut self,
        turned_away: TurnedAway,
        asking: Option<Address>,
        follows: bool,
        now: Instant,
    ) -> Option<TransportEvent> {
        let TurnedAway { call, said } = turned_away;
        let sent = self.left(call.id)?;
        let tries = sent.tries.saturating_add(1);
        if said.code == DOWN && tries > FOLLOWED {
            return Some(TransportEvent::Reply(call.id, Err(said.to_call_error())));
        }
        // A redirection tells the caller nothing. An earlier error that made the call wait is kept instead.
        let said = match sent.said {
            Some(before) if REDIRECTIONS.contains(&said.code.as_str()) => before,
            _ => said,
        };
        let pause = if follows && tries <= FOLLOWED {
            Duration::ZERO
        } else {
            BACK_OFF.0.saturating_mul(1 << tries.min(8)).min(BACK_OFF.1)
        };
        self.put_back(Waiting {
            flow: sent.flow,
            call,
            asking,
            since: sent.since,
            not_before: now + pause,
            tries,
            said: Some(said),
        });
        None
    }

    /// Takes back a call that was not sent because the connection closed.
    pub(super) fn unsent(&mut self, call: Call) {
        let Some(sent) = self.left(call.id) else { return };
        self.put_back(Waiting {
            flow: sent.flow,
            call,
            asking: None,
            since: sent.since,
            not_before: Instant::ZERO,
            tries: sent.tries,
            said: None,
        });
    }

    /// Puts a call back into the order in which the calls came.
    fn put_back(&mut self, waiting: Waiting) {
        let place = self.waiting.partition_point(|other| other.call.id < waiting.call.id);
        self.waiting.insert(place, waiting);
    }

    fn left(&mut self, id: CallId) -> Option<Sent> {
        let sent = self.sent.remove(&id)?;
        if let Some(way) = self.ways.get_mut(&sent.flow) {
            way.count = way.count.saturating_sub(1);
            if way.count == 0 {
                self.ways.remove(&sent.flow);
            }
        }
        Some(sent)
    }

    /// Answers the calls that have waited too long. `why` is the error for a call that no node refused.
    pub(super) fn drop_overdue(
        &mut self,
        now: Instant,
        why: impl Fn(&Waiting) -> CallError,
        events: &mut Vec<TransportEvent>,
    ) {
        let patience = self.patience;
        let is_overdue = |waiting: &Waiting| waiting.since != Instant::ZERO && now >= waiting.since + patience;
        if !self.waiting.iter().any(is_overdue) {
            return;
        }
        self.waiting.retain(|waiting| {
            let is_over = is_overdue(waiting);
            if is_over {
                events.push(waiting.answer(|| why(waiting)));
            }
            !is_over
        });
    }

    /// Returns the time at which a call must be sent again or answered.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let due = self.waiting.iter().filter(|waiting| waiting.since != Instant::ZERO);
        due.map(|waiting| {
            let over = waiting.since + self.patience;
            if waiting.not_before == Instant::ZERO {
                over
            } else {
                waiting.not_before.min(over)
            }
        })
        .min()
    }
}

impl Waiting {
    /// Whether the call that was sent is a later one of the same lock, by another script. Such a call may undo this
    /// one.
    fn is_overtaken_by(&self, id: CallId, sent: &Sent) -> bool {
        self.flow == sent.flow
            && self.call.id < id
            && self.call.script != sent.script
            && self.call.keys.first().map(|key| hash_tag(key)) == Some(hash_tag(&sent.key))
    }

    fn answer(&self, otherwise: impl FnOnce() -> CallError) -> TransportEvent {
        let error = self.said.as_ref().map_or_else(otherwise, ServerError::to_call_error);
        TransportEvent::Reply(self.call.id, Err(error))
    }
}

#[cfg(test)]
mod tests {
    use steadlock_protocol::NodeId;

    use super::*;

    const NOW: Instant = Instant::from_micros(1_000_000);

    fn call(id: u64, script: Script, key: &str) -> Call {
        Call {
            id: CallId::from_u64(id),
            node: NodeId::default(),
            lane: Lane::Command,
            script,
            keys: vec![key.as_bytes().into()],
            args: Vec::new(),
        }
    }

    fn a() -> Address {
        Address::new("a", 1)
    }

    fn b() -> Address {
        Address::new("b", 1)
    }

    /// Sends the calls that may go to `node`, and returns them.
    fn sent(queue: &mut Queue, node: &Address, now: Instant) -> Vec<(u64, bool)> {
        let mut went = Vec::new();
        queue.flush(
            now,
            |_| Step::Go(node.clone()),
            |_, call, asking| went.push((call.id.get(), asking)),
        );
        went
    }

    fn turn_away(
        queue: &mut Queue,
        call: Call,
        code: &str,
        asking: Option<Address>,
        now: Instant,
    ) -> Option<TransportEvent> {
        let said = ServerError {
            code: code.into(),
            message: String::new(),
        };
        let follows = asking.is_some();
        queue.turned_away(TurnedAway { call, said }, asking, follows, now)
    }

    fn is_refusal(events: &TransportEvent, id: u64) -> bool {
        matches!(events, TransportEvent::Reply(of, Err(CallError::Server { .. })) if *of == CallId::from_u64(id))
    }

    fn of(queue: &mut Queue, id: u64, script: Script, key: &str) -> Call {
        let made = call(id, script, key);
        queue.push(made.clone());
        made
    }

    #[test]
    fn a_slot_s_calls_are_on_their_way_to_one_node_at_a_time() {
        let mut queue = Queue::new(Duration::from_secs(3), &World::default());
        of(&mut queue, 1, Script::LockAcquire, "x");
        assert_eq!(sent(&mut queue, &a(), NOW), [(1, false)]);
        of(&mut queue, 2, Script::LockRelease, "x");
        of(&mut queue, 3, Script::LockAcquire, "another slot");
        assert_eq!(sent(&mut queue, &b(), NOW), [(3, false)]);
        assert_eq!((queue.on_the_way_to(&a()), queue.on_the_way_to(&b())), (1, 1));
        queue.answered(CallId::from_u64(1), &mut Vec::new());
        assert_eq!(sent(&mut queue, &b(), NOW), [(2, false)]);
        assert_eq!(queue.on_the_way_to(&a()), 0);
    }

    #[test]
    fn what_is_sent_elsewhere_goes_at_once_and_what_nobody_wants_goes_later() {
        let mut queue = Queue::new(Duration::from_secs(3), &World::default());
        let call = of(&mut queue, 1, Script::LockAcquire, "x");
        sent(&mut queue, &a(), NOW);
        assert!(turn_away(&mut queue, call.clone(), "ASK", Some(b()), NOW).is_none());
        assert_eq!(sent(&mut queue, &b(), NOW), [(1, true)]);
        assert!(turn_away(&mut queue, call, "TRYAGAIN", None, NOW).is_none());
        assert_eq!(sent(&mut queue, &a(), NOW), []);
        let due = queue.poll_timeout().unwrap();
        assert!(due > NOW && due <= NOW + BACK_OFF.1);
        assert_eq!(sent(&mut queue, &a(), due), [(1, false)]);
    }

    #[test]
    fn calls_that_wait_for_a_node_keep_nobody_awake() {
        let mut queue = Queue::new(Duration::from_secs(3), &World::default());
        let calls = [1, 2].map(|id| of(&mut queue, id, Script::LockAcquire, "x"));
        assert_eq!(sent(&mut queue, &a(), NOW).len(), calls.len());
        for call in calls {
            queue.turned_away(
                TurnedAway {
                    call,
                    said: ServerError {
                        code: "MOVED".into(),
                        message: String::new(),
                    },
                },
                None,
                true,
                NOW,
            );
        }
        queue.flush(NOW, |_| Step::Stay, |_, _, _| {});
        assert_eq!(queue.poll_timeout(), Some(NOW + Duration::from_secs(3)));
    }

    #[test]
    fn what_undoes_a_call_is_not_followed_by_it() {
        let mut queue = Queue::new(Duration::from_secs(3), &World::default());
        let acquire = of(&mut queue, 1, Script::LockAcquire, "x");
        sent(&mut queue, &a(), NOW);
        turn_away(&mut queue, acquire, "TRYAGAIN", None, NOW);
        of(&mut queue, 2, Script::LockRelease, "x");
        assert_eq!(sent(&mut queue, &a(), NOW), [(2, false)]);
        let mut events = Vec::new();
        // The call is not sent after its release either.
        assert_eq!(sent(&mut queue, &a(), NOW + BACK_OFF.1), []);
        queue.answered(CallId::from_u64(2), &mut events);
        assert!(matches!(&events[..], [events] if is_refusal(events, 1)), "{events:?}");
        assert!(queue.is_empty());
    }

    #[test]
    fn a_cluster_that_is_down_says_so_soon_and_others_when_their_time_is_over() {
        let mut queue = Queue::new(Duration::from_secs(3), &World::default());
        let call = of(&mut queue, 1, Script::LockAcquire, "x");
        let mut now = NOW;
        let answer = loop {
            assert_eq!(sent(&mut queue, &a(), now), [(1, false)]);
            match turn_away(&mut queue, call.clone(), DOWN, None, now) {
                Some(answer) => break answer,
                None => now = queue.poll_timeout().unwrap(),
            }
        };
        assert!(is_refusal(&answer, 1), "{answer:?}");
        assert!(now < NOW + Duration::from_millis(200));
        let call = of(&mut queue, 2, Script::LockAcquire, "x");
        sent(&mut queue, &a(), NOW);
        turn_away(&mut queue, call, "TRYAGAIN", None, NOW);
        let (mut events, over) = (Vec::new(), NOW + Duration::from_secs(3));
        queue.drop_overdue(over, |_| unreachable!("it was refused"), &mut events);
        assert!(matches!(&events[..], [events] if is_refusal(events, 2)), "{events:?}");
    }

    #[test]
    fn a_call_that_was_told_to_wait_is_answered_so_wherever_it_was_sent_since() {
        let mut queue = Queue::new(Duration::from_secs(3), &World::default());
        let call = of(&mut queue, 1, Script::LockAcquire, "x");
        let mut now = NOW;
        for (code, asking) in [("ASK", Some(b())), ("TRYAGAIN", None), ("ASK", Some(b()))] {
            assert_eq!(sent(&mut queue, &a(), now).len(), 1, "{code}");
            assert!(turn_away(&mut queue, call.clone(), code, asking, now).is_none());
            now = queue.poll_timeout().unwrap().max(now);
        }
        let mut events = Vec::new();
        queue.drop_overdue(
            NOW + Duration::from_secs(3),
            |_| unreachable!("it was refused"),
            &mut events,
        );
        let Some(TransportEvent::Reply(_, Err(CallError::Server { code, .. }))) = events.first() else {
            panic!("{events:?}");
        };
        assert_eq!(code, "TRYAGAIN");
    }

    #[test]
    fn what_did_not_leave_is_sent_again_before_what_came_later() {
        let mut queue = Queue::new(Duration::from_secs(3), &World::default());
        let first = of(&mut queue, 1, Script::LockAcquire, "x");
        sent(&mut queue, &a(), NOW);
        of(&mut queue, 2, Script::LockRelease, "x");
        queue.unsent(first);
        assert_eq!(sent(&mut queue, &b(), NOW), [(1, false), (2, false)]);
    }
}
