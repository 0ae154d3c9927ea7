//! Events as rows of four numbers: `[code, id, a, b]`.
//!
//! | code | id | a | b |
//! |---|---|---|---|
//! | connected, extended, closed | request | – | – |
//! | granted | request | lease | fencing token, −1 if none, −2 if none because the lease is degraded |
//! | refused, failed | request | – | – |
//! | released | request | index of the outcome | index of the reason if it was lost (expired, stolen), −1 if not |
//! | state | request | 1 if held, else 0 | number of free permits, −1 if none is held or the lock has no permits |
//! | forced | request | 1 if it was held, else 0 | – |
//! | lost | lease | index of the reason | 1 if it needs no release, else 0 |
//! | observed | – | – | – |
//!
//! All ids and tokens are below 2^53. The error of a refused or failed row is in the queue that `nextFailure` takes
//! from, in the order of the rows. The holder of a held lock is in the queue of `nextHolder`, and an observation in the
//! queue of `nextObservation`.

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

/// The words to which the numbers of rows refer, and the words of arguments. JavaScript reads them once.
#[derive(Debug)]
pub struct Words {
    /// The names of the codes, by code.
    pub codes: Vec<&'static str>,
    /// The outcomes of a release.
    pub outcomes: Vec<&'static str>,
    /// The reasons for the loss of a lease.
    pub reasons: Vec<&'static str>,
    /// The names of all error kinds.
    pub kinds: Vec<&'static str>,
    /// The names of all kinds of lock.
    pub lock_kinds: Vec<&'static str>,
    /// The ways in which an acquisition can end while its server is unavailable.
    pub policies: Vec<&'static str>,
    /// The options of a client.
    pub option_names: Vec<String>,
    /// Which values each of them takes.
    pub option_kinds: Vec<&'static str>,
}

impl Words {
    /// Returns all words.
    #[must_use]
    pub fn all() -> Self {
        Self {
            codes: CODES.to_vec(),
            outcomes: ReleaseOutcome::ALL.iter().map(|outcome| outcome.as_str()).collect(),
            reasons: LostReason::ALL.iter().map(|reason| reason.as_str()).collect(),
            kinds: ErrorKind::ALL.iter().map(|kind| kind.name()).collect(),
            // The packages have no jobs and no leaders yet.
            lock_kinds: Kind::NAMES
                .into_iter()
                .filter(|name| !["once", "leader"].contains(name))
                .collect(),
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

/// Returns the row of an event.
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

/// Returns the index of a reason in the vocabulary.
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
        // Never happens here: only hosts whose callers have a context make this request.
        Completion::Held { levels, .. } => (STATE, f64::from(*levels), 0.0),
        Completion::Closed => (CLOSED, 0.0, 0.0),
    };
    [code.into(), request as f64, a, b]
}

/// Returns the fencing token. A degraded lease never has one.
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
