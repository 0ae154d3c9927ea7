//! The promises that are checked while a history runs and at its end, a file for each concern.
//!
//! | | promise | file |
//! |---|---|---|
//! | I1 | holders that exclude each other never believe that they hold a lock at the same time | `exclusion`, `backing`, `removals` |
//! | I2 | tokens rise with every grant; a resource that checks them accepts no stale write | `fencing` |
//! | I3 | every key has a TTL | `remains` |
//! | I4 | after the release of an owner, no call renews its record or asks for a lock under its id; only the owner can renew a record; no script changes a record of another kind with the same name | `renewal`, `answers`, `operators` |
//! | I5 | the record of a request that was cancelled, failed, released or granted too late is gone soon after its client can reach the server, even while faults strike | `owners`, `remains` |
//! | I6 | a free lock is soon granted to a connected waiter, which learns of it; listeners are notified of a release, and a waiter that is notified asks; of callers that wait for each other, one is served | `progress`, `wakes` |
//! | I7 | the fair lock is granted to the first live waiter, and to no other | `fair_queue`, `operators` |
//! | I8 | the number of levels of a hold is the number of its grants less its releases | `levels` |
//! | I9 | a loss is reported once, in time, and never after the release; a ticket is completed once | `signals` |
//! | I10 | a waiting writer is admitted although readers keep coming, and a waiting reader although writers keep coming | `starvation` |
//! | I11 | permits are granted up to the limit that applies, which an operator may change; only the server reports that there is no room | `exclusion`, `operators`, `signals` |
//! | I12 | a closed session ends up empty | `remains` |
//! | I13 | one seed gives one trace | the trace's hash |
//! | I14 | only callers that asked for degraded leases are granted one; a degraded lease has no token, and excludes other leases of its client as a lease from a server would; when the servers are back, they grant again | `exclusion`, `outages` |
//! | I15 | no auto-renewed hold expires while a connection for calls is open and its server answers; clients leave a demoted server | `following` |
//! | I16 | at most one run of a job goes on; a run that ended well keeps the job from its next run until its start and `at_least`, and its key while it is kept, by the server's clock; a run that failed does so only if its caller asked for it | `runs`, `exclusion` |
//! | I17 | a request for a run never waits, and is skipped only because of a run that keeps it out, which its caller learns of; a caller is told that its run ended only if the server noted it; the history of a job has the runs that began and ended | `runs` |
//!
//! For readers and writers, and for permits, I1 has another rule about which holds may coexist: `kinds::admits`. A
//! composite lock must keep all promises for each of its members, and is one lease for I1, I5, I6, I8 and I9. Some
//! checks run only while no fault has effects (`World::is_settled`).

mod answers;
mod backing;
mod exclusion;
mod fair_queue;
mod fencing;
mod following;
mod levels;
mod operators;
mod outages;
mod owners;
mod progress;
mod remains;
mod removals;
mod renewal;
mod runs;
mod signals;
mod starvation;
mod wakes;

pub(crate) use answers::{check_answer, check_full, check_length};
pub(crate) use backing::{check_backing, check_refusal};
pub(crate) use exclusion::{Exclusion, is_valid};
pub(crate) use fair_queue::FairQueue;
pub(crate) use fencing::Fencing;
pub(crate) use following::Following;
pub(crate) use levels::{Levels, check_levels};
pub(crate) use operators::{
    Operators, PermitReply, SemaphoreState, check_forced, check_inspected, check_next, check_undisturbed, shown,
};
pub(crate) use outages::{check_degraded_grant, check_skipped};
pub(crate) use owners::Owners;
pub(crate) use progress::{NameState, Progress};
pub(crate) use remains::{check_nothing_remains, check_only_crashed_remain, check_session_is_empty, check_ttl};
pub(crate) use removals::Removals;
pub(crate) use renewal::Renewal;
pub(crate) use runs::{Ran, Runs};
pub(crate) use signals::{Signals, check_reported};
pub(crate) use starvation::Starvation;
pub(crate) use wakes::Wakes;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The number of the promise.
    pub invariant: &'static str,
    /// A description of what happened.
    pub what: String,
}

/// The result of a check.
pub(crate) type Checked = Result<(), Broken>;

/// Returns the failure of a check.
pub(crate) fn broken(invariant: &'static str, what: impl Into<String>) -> Checked {
    Err(Broken {
        invariant,
        what: what.into(),
    })
}
