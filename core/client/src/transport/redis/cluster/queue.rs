//! Calls that wait for their node, and the destinations of those that were sent.
//!
//! All calls of one slot and lane (a connection for commands, or for renewals) go to one node at a time. While some are
//! on their way to another node than the slot's owner, the others wait, so that all run in their order. Only a call
//! that a node has rejected can fall behind others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use steadlock_protocol::{Call, CallError, CallId, Instant, Lane, Script, hash_tag, slot};
use steadlock_resp::replies::ServerError;

use crate::transport::TransportEvent;
use crate::transport::redis::address::Address;
use crate::transport::redis::lane::{RejectedCall, Routed};

/// The base of the pause before a rejected call is sent again. The pause doubles with every attempt.
const BACK_OFF: Duration = Duration::from_millis(10);
/// The limit of that pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// The number of redirections that a call follows without a pause.
const IMMEDIATE_RETRIES: u32 = 2;
/// The error of a node that may not serve any slot.
const CLUSTER_DOWN: &str = "CLUSTERDOWN";
/// The errors of a node whose slot belongs to another node now, or is migrating to one.
const REDIRECTIONS: [&str; 2] = ["MOVED", "ASK"];

/// The calls of one slot and lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flow {
    pub(super) slot: u16,
    pub(super) lane: Lane,
}

/// A call that waits.
pub(super) struct Waiting {
    pub(super) call: Call,
    pub(super) flow: Flow,
    /// The node to ask although the slot is still migrating to it; `None` for the slot's owner.
    pub(super) asking: Option<Address>,
    since: Instant,
    not_before: Instant,
    attempts: u32,
    /// The last error of a node.
    last_error: Option<ServerError>,
}

/// A call that was sent.
struct Sent {
    flow: Flow,
    key: Arc<[u8]>,
    script: Script,
    since: Instant,
    attempts: u32,
    /// An earlier error of a node that made the call wait.
    last_error: Option<ServerError>,
}

/// The node to which the calls of a slot and lane were sent, and the number of these calls without a reply.
struct Destination {
    node: Address,
    count: usize,
}

/// A call that is sent now.
pub(super) struct SendableCall {
    pub(super) node: Address,
    pub(super) routed: Routed,
}

/// The node at which a rejected call is sent again.
pub(super) enum RetryAt {
    /// The owner of its slot, which was known before. The call is sent after a pause.
    Owner,
    /// The owner of its slot, which the rejection has named.
    NewOwner,
    /// A node to which the slot is still migrating. Only this attempt goes there.
    ImportingNode(Address),
}

/// The next step of a waiting call.
pub(super) enum Decision {
    /// The call is sent to this node.
    SendTo(Address),
    /// The call waits, and so do the later calls of its slot and lane.
    Wait,
}

pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    sent: BTreeMap<CallId, Sent>,
    destinations: BTreeMap<Flow, Destination>,
    /// The time after which a waiting call is answered.
    response_timeout: Duration,
}

impl Queue {
    pub(super) fn new(response_timeout: Duration) -> Self {
        Self {
            waiting: VecDeque::new(),
            sent: BTreeMap::new(),
            destinations: BTreeMap::new(),
            response_timeout,
        }
    }

    pub(super) fn push(&mut self, call: Call) {
        let key = call.keys.first().map_or(&[][..], |key| key);
        self.waiting.push_back(Waiting {
            flow: Flow {
                slot: slot(key),
                lane: call.lane,
            },
            call,
            asking: None,
            // Set by the first flush, because `push` reads no clock.
            since: Instant::ZERO,
            not_before: Instant::ZERO,
            attempts: 0,
            last_error: None,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of calls that were sent to a node and have no reply.
    pub(super) fn in_flight_to(&self, node: &Address) -> usize {
        let destinations = self
            .destinations
            .values()
            .filter(|destination| destination.node == *node);
        destinations.map(|destination| destination.count).sum()
    }

    /// Calls `decide` for each call that may be sent, in order. Returns those to send.
    pub(super) fn flush(&mut self, now: Instant, mut decide: impl FnMut(&Waiting) -> Decision) -> Vec<SendableCall> {
        let mut sendable = Vec::new();
        let mut blocked = BTreeSet::new();
        let mut remaining = VecDeque::new();
        for mut waiting in self.waiting.drain(..) {
            if waiting.since == Instant::ZERO {
                waiting.since = now;
            }
            // A call in the pause before its next attempt blocks no other call. If a later call that may undo it is
            // answered first, `on_reply` answers the paused call with an error, and it is not sent again.
            if now < waiting.not_before {
                remaining.push_back(waiting);
                continue;
            }
            waiting.not_before = Instant::ZERO;
            let flow = waiting.flow;
            let is_overtaken = waiting.last_error.is_some() && {
                let later = (Bound::Excluded(waiting.call.id), Bound::Unbounded);
                self.sent
                    .range(later)
                    .any(|(id, sent)| waiting.is_overtaken_by(*id, sent))
            };
            if is_overtaken || blocked.contains(&flow) {
                remaining.push_back(waiting);
                continue;
            }
            let node = match decide(&waiting) {
                Decision::SendTo(node)
                    if self
                        .destinations
                        .get(&flow)
                        .is_none_or(|destination| destination.node == node) =>
                {
                    node
                }
                Decision::SendTo(_) | Decision::Wait => {
                    blocked.insert(flow);
                    remaining.push_back(waiting);
                    continue;
                }
            };
            let destination = self.destinations.entry(flow).or_insert_with(|| Destination {
                node: node.clone(),
                count: 0,
            });
            destination.count += 1;
            let sent = Sent {
                flow,
                key: waiting.call.keys.first().cloned().unwrap_or_else(|| Arc::from([])),
                script: waiting.call.script,
                since: waiting.since,
                attempts: waiting.attempts,
                last_error: waiting.last_error,
            };
            self.sent.insert(waiting.call.id, sent);
            let routed = Routed {
                asking: waiting.asking.is_some(),
                ..waiting.call.into()
            };
            sendable.push(SendableCall { node, routed });
        }
        self.waiting = remaining;
        sendable
    }

    /// Handles the reply to a call. A rejected earlier call of the same lock must not run after this call, because this
    /// call may undo it.
    pub(super) fn on_reply(&mut self, id: CallId, events: &mut Vec<TransportEvent>) {
        let Some(sent) = self.remove_sent(id) else { return };
        let is_overtaken = |waiting: &Waiting| waiting.last_error.is_some() && waiting.is_overtaken_by(id, &sent);
        if !self.waiting.iter().any(is_overtaken) {
            return;
        }
        self.waiting.retain(|waiting| {
            let must_answer = is_overtaken(waiting);
            if must_answer {
                events.push(waiting.answer(|| CallError::Disconnected("another call of its lock came before".into())));
            }
            !must_answer
        });
    }

    /// Handles a call that a node did not run: the call is sent again. A cluster can be down for long, so after a few
    /// attempts `CLUSTERDOWN` becomes the answer, which is returned.
    pub(super) fn on_rejected(
        &mut self,
        rejected: RejectedCall,
        retry: RetryAt,
        now: Instant,
    ) -> Option<TransportEvent> {
        let RejectedCall { call, error } = rejected;
        let sent = self.remove_sent(call.id)?;
        let attempts = sent.attempts.saturating_add(1);
        if error.code == CLUSTER_DOWN && attempts > IMMEDIATE_RETRIES {
            return Some(TransportEvent::Reply {
                call: call.id,
                result: Err(error.to_call_error()),
            });
        }
        // A redirection tells the caller nothing. An earlier error that made the call wait is kept instead.
        let last_error = match sent.last_error {
            Some(before) if REDIRECTIONS.contains(&error.code.as_str()) => before,
            _ => error,
        };
        let is_redirected = !matches!(retry, RetryAt::Owner);
        let pause = if is_redirected && attempts <= IMMEDIATE_RETRIES {
            Duration::ZERO
        } else {
            BACK_OFF.saturating_mul(1 << attempts.min(8)).min(LONGEST_PAUSE)
        };
        self.put_back(Waiting {
            flow: sent.flow,
            call,
            asking: match retry {
                RetryAt::ImportingNode(node) => Some(node),
                RetryAt::Owner | RetryAt::NewOwner => None,
            },
            since: sent.since,
            not_before: now + pause,
            attempts,
            last_error: Some(last_error),
        });
        None
    }

    /// Takes back a call that was not sent because the connection closed.
    pub(super) fn on_unsent(&mut self, call: Call) {
        let Some(sent) = self.remove_sent(call.id) else { return };
        self.put_back(Waiting {
            flow: sent.flow,
            call,
            asking: None,
            since: sent.since,
            not_before: Instant::ZERO,
            attempts: sent.attempts,
            last_error: None,
        });
    }

    /// Puts a call back into the order in which the calls came.
    fn put_back(&mut self, waiting: Waiting) {
        let index = self.waiting.partition_point(|other| other.call.id < waiting.call.id);
        self.waiting.insert(index, waiting);
    }

    fn remove_sent(&mut self, id: CallId) -> Option<Sent> {
        let sent = self.sent.remove(&id)?;
        if let Some(destination) = self.destinations.get_mut(&sent.flow) {
            destination.count = destination.count.saturating_sub(1);
            if destination.count == 0 {
                self.destinations.remove(&sent.flow);
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
        let response_timeout = self.response_timeout;
        let is_overdue = |waiting: &Waiting| waiting.since != Instant::ZERO && now >= waiting.since + response_timeout;
        if !self.waiting.iter().any(is_overdue) {
            return;
        }
        self.waiting.retain(|waiting| {
            let must_answer = is_overdue(waiting);
            if must_answer {
                events.push(waiting.answer(|| why(waiting)));
            }
            !must_answer
        });
    }

    /// Returns the time at which a call must be sent again or answered.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let due = self.waiting.iter().filter(|waiting| waiting.since != Instant::ZERO);
        due.map(|waiting| {
            let timeout_at = waiting.since + self.response_timeout;
            if waiting.not_before == Instant::ZERO {
                timeout_at
            } else {
                waiting.not_before.min(timeout_at)
            }
        })
        .min()
    }
}

impl Waiting {
    /// Whether the call that was sent is a later call of the same lock, by another script. Such a call may undo this
    /// one.
    fn is_overtaken_by(&self, id: CallId, sent: &Sent) -> bool {
        self.flow == sent.flow
            && self.call.id < id
            && self.call.script != sent.script
            && self.call.keys.first().map(|key| hash_tag(key)) == Some(hash_tag(&sent.key))
    }

    fn answer(&self, otherwise: impl FnOnce() -> CallError) -> TransportEvent {
        let error = self
            .last_error
            .as_ref()
            .map_or_else(otherwise, ServerError::to_call_error);
        TransportEvent::Reply {
            call: self.call.id,
            result: Err(error),
        }
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

    #[derive(Debug, PartialEq, Eq)]
    struct SentCall {
        id: u64,
        asking: bool,
    }

    /// A call that was sent to the owner of its slot.
    fn to_owner(id: u64) -> SentCall {
        SentCall { id, asking: false }
    }

    /// A call that was sent to the node that is importing its slot.
    fn to_importing_node(id: u64) -> SentCall {
        SentCall { id, asking: true }
    }

    /// Sends the calls that may go to `node`.
    fn sent(queue: &mut Queue, node: &Address, now: Instant) -> Vec<SentCall> {
        let sendable = queue.flush(now, |_| Decision::SendTo(node.clone()));
        let sent = |sendable: SendableCall| SentCall {
            id: sendable.routed.call.id.get(),
            asking: sendable.routed.asking,
        };
        sendable.into_iter().map(sent).collect()
    }

    fn reject(queue: &mut Queue, call: Call, code: &str, retry: RetryAt, now: Instant) -> Option<TransportEvent> {
        let error = ServerError {
            code: code.into(),
            message: String::new(),
        };
        queue.on_rejected(RejectedCall { call, error }, retry, now)
    }

    fn is_refusal(event: &TransportEvent, id: u64) -> bool {
        let id = CallId::from_u64(id);
        matches!(event, TransportEvent::Reply { call, result: Err(CallError::Server { .. }) } if *call == id)
    }

    fn push(queue: &mut Queue, id: u64, script: Script, key: &str) -> Call {
        let call = call(id, script, key);
        queue.push(call.clone());
        call
    }

    #[test]
    fn the_calls_of_a_slot_are_in_flight_to_one_node_at_a_time() {
        let mut queue = Queue::new(Duration::from_secs(3));
        push(&mut queue, 1, Script::LockAcquire, "x");
        assert_eq!(sent(&mut queue, &a(), NOW), [to_owner(1)]);
        push(&mut queue, 2, Script::LockRelease, "x");
        push(&mut queue, 3, Script::LockAcquire, "another slot");
        assert_eq!(sent(&mut queue, &b(), NOW), [to_owner(3)]);
        assert_eq!((queue.in_flight_to(&a()), queue.in_flight_to(&b())), (1, 1));
        queue.on_reply(CallId::from_u64(1), &mut Vec::new());
        assert_eq!(sent(&mut queue, &b(), NOW), [to_owner(2)]);
        assert_eq!(queue.in_flight_to(&a()), 0);
    }

    #[test]
    fn a_redirected_call_is_sent_at_once_and_a_refused_one_after_a_pause() {
        let mut queue = Queue::new(Duration::from_secs(3));
        let call = push(&mut queue, 1, Script::LockAcquire, "x");
        sent(&mut queue, &a(), NOW);
        assert!(reject(&mut queue, call.clone(), "ASK", RetryAt::ImportingNode(b()), NOW).is_none());
        assert_eq!(sent(&mut queue, &b(), NOW), [to_importing_node(1)]);
        assert!(reject(&mut queue, call, "TRYAGAIN", RetryAt::Owner, NOW).is_none());
        assert_eq!(sent(&mut queue, &a(), NOW), []);
        let due = queue.poll_timeout().unwrap();
        assert!(due > NOW && due <= NOW + LONGEST_PAUSE);
        assert_eq!(sent(&mut queue, &a(), due), [to_owner(1)]);
    }

    #[test]
    fn calls_that_wait_for_a_node_cause_no_timeouts_before_their_own() {
        let mut queue = Queue::new(Duration::from_secs(3));
        let calls = [1, 2].map(|id| push(&mut queue, id, Script::LockAcquire, "x"));
        assert_eq!(sent(&mut queue, &a(), NOW).len(), calls.len());
        for call in calls {
            queue.on_rejected(
                RejectedCall {
                    call,
                    error: ServerError {
                        code: "MOVED".into(),
                        message: String::new(),
                    },
                },
                RetryAt::NewOwner,
                NOW,
            );
        }
        queue.flush(NOW, |_| Decision::Wait);
        assert_eq!(queue.poll_timeout(), Some(NOW + Duration::from_secs(3)));
    }

    #[test]
    fn a_rejected_call_is_not_sent_after_the_call_that_undoes_it() {
        let mut queue = Queue::new(Duration::from_secs(3));
        let acquire = push(&mut queue, 1, Script::LockAcquire, "x");
        sent(&mut queue, &a(), NOW);
        reject(&mut queue, acquire, "TRYAGAIN", RetryAt::Owner, NOW);
        push(&mut queue, 2, Script::LockRelease, "x");
        assert_eq!(sent(&mut queue, &a(), NOW), [to_owner(2)]);
        let mut events = Vec::new();
        // The call is not sent after its release either.
        assert_eq!(sent(&mut queue, &a(), NOW + LONGEST_PAUSE), []);
        queue.on_reply(CallId::from_u64(2), &mut events);
        assert!(matches!(&events[..], [event] if is_refusal(event, 1)), "{events:?}");
        assert!(queue.is_empty());
    }

    #[test]
    fn a_cluster_that_is_down_fails_calls_soon_and_other_errors_do_at_the_timeout() {
        let mut queue = Queue::new(Duration::from_secs(3));
        let call = push(&mut queue, 1, Script::LockAcquire, "x");
        let mut now = NOW;
        let answer = loop {
            assert_eq!(sent(&mut queue, &a(), now), [to_owner(1)]);
            match reject(&mut queue, call.clone(), CLUSTER_DOWN, RetryAt::Owner, now) {
                Some(answer) => break answer,
                None => now = queue.poll_timeout().unwrap(),
            }
        };
        assert!(is_refusal(&answer, 1), "{answer:?}");
        assert!(now < NOW + Duration::from_millis(200));
        let call = push(&mut queue, 2, Script::LockAcquire, "x");
        sent(&mut queue, &a(), NOW);
        reject(&mut queue, call, "TRYAGAIN", RetryAt::Owner, NOW);
        let (mut events, timeout_at) = (Vec::new(), NOW + Duration::from_secs(3));
        queue.drop_overdue(timeout_at, |_| unreachable!("it was refused"), &mut events);
        assert!(matches!(&events[..], [event] if is_refusal(event, 2)), "{events:?}");
    }

    #[test]
    fn an_error_that_made_a_call_wait_is_its_answer_even_after_redirections() {
        let mut queue = Queue::new(Duration::from_secs(3));
        let call = push(&mut queue, 1, Script::LockAcquire, "x");
        let mut now = NOW;
        for (code, retry) in [
            ("ASK", RetryAt::ImportingNode(b())),
            ("TRYAGAIN", RetryAt::Owner),
            ("ASK", RetryAt::ImportingNode(b())),
        ] {
            assert_eq!(sent(&mut queue, &a(), now).len(), 1, "{code}");
            assert!(reject(&mut queue, call.clone(), code, retry, now).is_none());
            now = queue.poll_timeout().unwrap().max(now);
        }
        let mut events = Vec::new();
        queue.drop_overdue(
            NOW + Duration::from_secs(3),
            |_| unreachable!("it was refused"),
            &mut events,
        );
        let Some(TransportEvent::Reply {
            result: Err(CallError::Server { code, .. }),
            ..
        }) = events.first()
        else {
            panic!("{events:?}");
        };
        assert_eq!(code, "TRYAGAIN");
    }

    #[test]
    fn an_unsent_call_is_sent_again_before_later_calls() {
        let mut queue = Queue::new(Duration::from_secs(3));
        let first = push(&mut queue, 1, Script::LockAcquire, "x");
        sent(&mut queue, &a(), NOW);
        push(&mut queue, 2, Script::LockRelease, "x");
        queue.on_unsent(first);
        assert_eq!(sent(&mut queue, &b(), NOW), [to_owner(1), to_owner(2)]);
    }
}
