//! What must be true after every step, a file for each concern.
//!
//! | | promise | file |
//! |---|---|---|
//! | I1 | holders that exclude one another never believe at the same time | `exclusion`, `backing`, `removals` |
//! | I2 | tokens rise with every grant; a resource that looks at them takes no stale write | `fencing` |
//! | I3 | no key without TTL | `remains` |
//! | I4 | nothing is renewed or asked for after its release; only its owner renews it; no kind of a name disturbs another | `renewal`, `answers`, `operators` |
//! | I5 | what was cancelled, failed, released or granted too late leaves no record, also while faults strike, once its client reaches the server | `owners`, `remains` |
//! | I6 | a free lock soon goes to a connected waiter, which learns of it; a release is told to who listens, and a waiter that hears that a lock may be free asks; of callers that wait for one another, one is served | `progress`, `wakes` |
//! | I7 | the fair lock goes to the first live waiter, and to no other | `line`, `operators` |
//! | I8 | levels are grants less releases | `levels` |
//! | I9 | a loss is told once, in time, never after release; a ticket is completed once | `signals` |
//! | I10 | a waiting writer gets in though readers keep coming, and a waiting reader though writers do | `starvation` |
//! | I11 | permits are granted up to the limit that counts, which an operator may change; only the server says that there is no room | `exclusion`, `operators`, `signals` |
//! | I12 | a closed session comes to keep nothing | `remains` |
//! | I15 | no auto-renewed hold expires while a lane is open and its server answers; a demoted server is left | `following` |
//! | I13 | one seed gives one trace | the trace's hash |
//! | I14 | without a server only who wants it so is granted a lease, without a token, and each of its names that no server granted excludes all others of its client; with the servers back, so are the answers | `exclusion`, `outages` |
//!
//! That readers and writers exclude one another (I10) and that no more permits are relied
//! on than there are (I11) is I1 with another rule of who may hold beside whom:
//! `kinds::admits`. Locks that are taken together have to keep all of it lock by lock, and
//! are one lease to I1, I5, I6, I8 and I9.

mod answers;
mod backing;
mod exclusion;
mod fencing;
mod following;
mod levels;
mod line;
mod operators;
mod outages;
mod owners;
mod progress;
mod remains;
mod removals;
mod renewal;
mod signals;
mod starvation;
mod wakes;

pub(crate) use answers::{check_answer, check_full, check_length};
pub(crate) use backing::{check_backing, check_refusal};
pub(crate) use exclusion::{Exclusion, is_believed};
pub(crate) use fencing::Fencing;
pub(crate) use following::Following;
pub(crate) use levels::check_levels;
pub(crate) use line::Line;
pub(crate) use operators::{
    Operators, PermitsStanding, Said, check_forced, check_inspected, check_next, check_undisturbed, shown,
};
pub(crate) use outages::{check_degraded_grant, check_skipped};
pub(crate) use owners::Owners;
pub(crate) use progress::{Progress, Sight};
pub(crate) use remains::{check_nothing_remains, check_only_crashed_remain, check_session_is_empty, check_ttl};
pub(crate) use removals::Removals;
pub(crate) use renewal::Renewal;
pub(crate) use signals::{Signals, check_is_told};
pub(crate) use starvation::Starvation;
pub(crate) use wakes::Wakes;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its number.
    pub invariant: &'static str,
    /// What happened.
    pub what: String,
}

/// What a check says.
pub(crate) type Checked = Result<(), Broken>;

/// A check that failed.
pub(crate) fn broken(invariant: &'static str, what: impl Into<String>) -> Checked {
    Err(Broken {
        invariant,
        what: what.into(),
    })
}
