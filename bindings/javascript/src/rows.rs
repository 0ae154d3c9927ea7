//! Events as rows of four numbers: `[code, id, a, b]`.
//!
//! | code | id | a | b |
//! |---|---|---|---|
//! | connected, extended, closed | request | – | – |
//! | granted | request | lease | fencing token, −1 if none, −2 if none since the lease is degraded |
//! | refused, failed | request | – | – |
//! | released | request | index of the outcome | index of why the lease was lost if it was expired or stolen, −1 if not |
//! | state | request | 1 if held, else 0 | permits that are free, −1 if none is held or the lock has none |
//! | forced | request | 1 if it was held, else 0 | – |
//! | lost | lease | index of the reason | 1 if nobody need release it, else 0 |
//! | observed | – | – | – |
//!
//! All ids and tokens are below 2^53. A row that is refused or failed has its
//! error in the queue that `nextFailure` takes from, in the rows' order, and a
//! state that is held has its holder in that of `nextHolder`. What was observed is
//! in that of `nextObservation`.

use steadlock::host::{
    Completion, ErrorKind, Event, Kind, Lease, LockState, LostReason, OnUnavailable, Options, ReleaseOutcome,
};

use crate::spelling::camel_case;

/// How many numbers a row has.
pub const WIDTH: usize = 4;

pub(crate) type Row = [f64; WIDTH];

const CONNECTED: u8 = 0;
const GRANTED: u8 = 1;
const REFUSED: u8 = 2;
const RELEASED: u8 = 3;
const EXTENDED: u8 = 4;
const STATE: u8 = 5;
const CLOSED: u8 = 6;
const FAILED: u8 = 7;
const LOST: u8 = 8;
const FORCED: u8 = 9;
const OBSERVED: u8 = 10;

/// The words that rows and arguments are made of, told to JavaScript once.
#[derive(Debug)]
pub struct Words {
    /// The names of the codes, by code.
    pub codes: Vec<&'static str>,
    /// How releases end.
    pub outcomes: Vec<&'static str>,
    /// Why leases are lost.
    pub reasons: Vec<&'static str>,
    /// The names of all error kinds.
    pub kinds: Vec<&'static str>,
    /// The names of all kinds of lock.
    pub lock_kinds: Vec<&'static str>,
    /// What may become of an acquisition while its server is unavailable.
    pub policies: Vec<&'static str>,
    /// The options of a client.
    pub option_names: Vec<String>,
    /// Which values each of them takes.
    pub option_kinds: Vec<&'static str>,
}

impl Words {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self {
            codes: CODES.to_vec(),
            outcomes: ReleaseOutcome::ALL.iter().map(|outcome| outcome.as_str()).collect(),
            reasons: LostReason::ALL.iter().map(|reason| reason.as_str()).collect(),
            kinds: ErrorKind::ALL.iter().map(|kind| kind.name()).collect(),
            lock_kinds: Kind::NAMES.to_vec(),
            policies: OnUnavailable::ALL.map(OnUnavailable::as_str).to_vec(),
            option_names: Options::ALL.iter().map(|(name, _)| camel_case(name)).collect(),
            option_kinds: Options::ALL.iter().map(|(_, kind)| kind.as_str()).collect(),
        }
    }
}

const CODES: [&str; 11] = [
    "connected",
    "granted",
    "refused",
    "released",
    "extended",
    "state",
    "closed",
    "failed",
    "lost",
    "forced",
    "observed",
];

/// The row of an event.
pub(crate) fn row(event: &Event) -> Row {
    match event {
        Event::Completed {
            request,
            result: Ok(completion),
        } => completed(*request, completion),
        Event::Completed {
            request,
            result: Err(_),
        } => [FAILED.into(), *request as f64, 0.0, 0.0],
        Event::Lost {
            lease,
            reason,
            is_forgotten,
        } => [
            LOST.into(),
            *lease as f64,
            reason_index(*reason),
            f64::from(*is_forgotten),
        ],
        Event::Observed(_) => [OBSERVED.into(), 0.0, 0.0, 0.0],
    }
}

/// The index of a reason in the vocabulary.
#[must_use]
pub fn reason_index(reason: LostReason) -> f64 {
    index(&LostReason::ALL, &reason)
}

fn completed(request: u64, completion: &Completion) -> Row {
    let (code, a, b) = match completion {
        Completion::Connected => (CONNECTED, 0.0, 0.0),
        Completion::Granted(lease) => (GRANTED, lease.id() as f64, token(lease)),
        Completion::NotGranted(_) => (REFUSED, 0.0, 0.0),
        Completion::Released(released) => (
            RELEASED,
            index(&ReleaseOutcome::ALL, &released.outcome),
            released.lost.map_or(-1.0, reason_index),
        ),
        Completion::Extended => (EXTENDED, 0.0, 0.0),
        Completion::State(state) => (STATE, flag(state.holder.is_some()), free_permits(state)),
        Completion::Forced(was_held) => (FORCED, flag(*was_held), 0.0),
        // Only asked for by hosts with implicit contexts; here there is none.
        Completion::Held { levels, .. } => (STATE, f64::from(*levels), 0.0),
        Completion::Closed => (CLOSED, 0.0, 0.0),
    };
    [code.into(), request as f64, a, b]
}

/// The fencing token. A degraded lease never has one.
fn token(lease: &Lease) -> f64 {
    match lease.token() {
        Some(token) => token as f64,
        None if lease.is_degraded() => -2.0,
        None => -1.0,
    }
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

fn free_permits(state: &LockState) -> f64 {
    state
        .permits
        .map_or(-1.0, |(held, limit)| limit.saturating_sub(held).into())
}

fn index<T: PartialEq>(words: &[T], word: &T) -> f64 {
    words
        .iter()
        .position(|known| known == word)
        .map_or(-1.0, |at| at as f64)
}
