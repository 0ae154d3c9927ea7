//! A test bench for one machine: connections, calls and a clock, without the other machines.

use std::sync::Arc;
use std::time::Duration;

use crate::breakers::Breaker;
use crate::calls::Answered;
use crate::identities::Identity;
use crate::ids::{CallId, NodeId, Primary, Ticket};
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, Kind};
use crate::name::{KeyPrefix, LockName};
use crate::owner::ClientId;
use crate::reply::{CallError, Reply};
use crate::step::Step;
use crate::types::{Call, Config, Event, Lane, Outcome, Transmit};

pub(super) const NODE: NodeId = NodeId(0);

pub(super) struct Bench {
    pub(super) io: Io,
    pub(super) now: Instant,
}

impl Bench {
    /// Makes a bench whose two lanes, the connections for calls, are open.
    pub(super) fn new() -> Self {
        Self::of(|_| {})
    }

    /// Makes the bench of a client that tells the server which program it is.
    pub(super) fn with_identity() -> Self {
        let identity = Identity {
            info: Arc::default(),
            prefix: KeyPrefix::default(),
        };
        Self::of(|config| config.identity = Some(identity))
    }

    /// Makes the bench of a client whose calls can overtake each other.
    pub(super) fn without_order() -> Self {
        Self::of(|config| config.keeps_order = false)
    }

    fn of(change: impl FnOnce(&mut Config)) -> Self {
        let mut bench = Self::made(change);
        bench.open(&[Lane::Renewal, Lane::Command]);
        bench
    }

    pub(super) fn without_connection() -> Self {
        Self::made(|_| {})
    }

    fn made(change: impl FnOnce(&mut Config)) -> Self {
        let mut drawn = 0_u64;
        let mut entropy = move || {
            drawn = drawn.wrapping_add(2);
            drawn
        };
        let mut config = Config::new(ClientId::random(&mut entropy));
        config.breaker = Some(Breaker::DEFAULT);
        change(&mut config);
        Self {
            io: Io::new(config, Box::new(entropy)),
            now: Instant::ZERO + Duration::from_secs(1_000),
        }
    }

    pub(super) fn open(&mut self, lanes: &[Lane]) {
        for lane in lanes {
            self.io.lane_opened(NODE, *lane);
        }
    }

    pub(super) fn close(&mut self, lanes: &[Lane]) {
        for lane in lanes {
            self.io.lane_closed(NODE, *lane, "gone".into());
        }
    }

    /// Opens the circuit breaker of the primary.
    pub(super) fn outage(&mut self) {
        for _ in 0..Breaker::DEFAULT.failures {
            self.io.failed_at(Primary::default(), &"no answer".into(), self.now);
        }
    }

    pub(super) fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    /// Returns the script calls that are new since this method last ran, and marks them as sent now.
    pub(super) fn calls(&mut self) -> Vec<Call> {
        let transmits = std::iter::from_fn(|| self.io.next_transmit());
        let calls = transmits.filter_map(|transmit| match transmit {
            Transmit::Call(call) => Some(call),
            Transmit::Subscribe { .. } | Transmit::Unsubscribe { .. } => None,
        });
        let calls: Vec<Call> = calls.collect();
        for call in &calls {
            self.io.sent(call.id, self.now);
        }
        calls
    }

    /// Returns the only call that `calls` would return, and marks it as sent now.
    pub(super) fn call(&mut self) -> CallId {
        let calls = self.calls();
        assert_eq!(calls.len(), 1, "{calls:?}");
        calls[0].id
    }

    /// Removes a call from the calls in flight, and returns it with this result.
    pub(super) fn answer(&mut self, id: CallId, result: Result<Reply, CallError>) -> Answered {
        let (call, _) = self.io.finish(id).unwrap();
        Answered { id, call, result }
    }

    /// Returns the new outcomes with their tickets. Drops all other steps.
    pub(super) fn outcomes(&mut self) -> Vec<(Ticket, Outcome)> {
        let steps = self.io.take_steps().into_iter();
        let outcomes = steps.filter_map(|step| match step {
            Step::Emit(Event::Completed { ticket, outcome }) => Some((ticket, outcome)),
            _ => None,
        });
        outcomes.collect()
    }
}

pub(super) fn keys(kind: Kind) -> Arc<Keys> {
    Arc::new(Keys::new(kind, &LockName::parse("stock").unwrap(), NODE))
}

pub(super) fn numbers(numbers: &[i64]) -> Result<Reply, CallError> {
    Ok(Reply::Array(numbers.iter().map(|number| Reply::Int(*number)).collect()))
}

pub(super) fn cut() -> Result<Reply, CallError> {
    Err(CallError::Disconnected("gone".into()))
}

pub(super) fn refusal(code: &str) -> Result<Reply, CallError> {
    Err(CallError::Server {
        code: code.into(),
        message: "no".into(),
    })
}
