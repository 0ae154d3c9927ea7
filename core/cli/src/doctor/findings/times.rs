//! Clocks, round trips and failovers beside the lease.

use std::time::Duration;

use crate::doctor::catalogue::{Check, Finding};
use crate::doctor::facts::{Fact, Facts, Layout, Server};

/// A clock that is off by more, in microseconds, is told.
pub(super) const CLOCK_TOLERANCE: i64 = 1_000_000;
/// What a promotion takes, from the moment when the primary counts as down.
const PROMOTION: Duration = Duration::from_secs(2);

pub(super) fn judge(facts: &Facts, server: &Server, all: &mut Vec<Finding>) {
    if let Fact::Known(clock) = &server.clock
        && clock.ahead.saturating_abs().saturating_sub(clock.within) > CLOCK_TOLERANCE
    {
        all.push(Finding::new(
            Check::ClockOff,
            format!(
                "its clock is {} of this machine's: fencing tokens follow it, and repeat if it is set back after the \
                 data was lost",
                apart(clock.ahead)
            ),
            "keep the clocks of all machines together by NTP",
        ));
    }
    if let Fact::Known(trip) = &server.round_trip {
        let shown = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1_000.0);
        let (median, worst) = (shown(trip.median), shown(trip.worst));
        let lease = facts.lease.as_secs_f64();
        let (bound, why) = if facts.layout == Layout::RedLock {
            let timeout = (facts.lease / 10).clamp(Duration::from_millis(50), Duration::from_millis(500));
            (timeout, "the time that a primary has to answer in a RedLock round")
        } else {
            (facts.lease / 20, "a twentieth of the lease")
        };
        if trip.median > facts.lease / 6 {
            all.push(Finding::new(
                Check::RoundTripTooLong,
                format!(
                    "a round trip takes {median}, more than a sixth of the lease of {lease} s: renewals come too late"
                ),
                "use a nearer server, or longer leases",
            ));
        } else if trip.worst > bound {
            all.push(Finding::new(
                Check::RoundTripSlow,
                format!("the worst of some round trips took {worst} (median {median}), more than {why}"),
                "look at the network and the server's slow log, or use longer leases",
            ));
        }
    }
    if let Some(node) = &server.node
        && let Fact::Known(timeout) = &node.timeout
        && let Some(finding) = slow_failover(facts, *timeout, "cluster-node-timeout")
    {
        all.push(finding);
    }
}

/// Whether a lease ends before a replica has taken over: what is left of one that is renewed at a third of it.
pub(super) fn slow_failover(facts: &Facts, noticed: Duration, setting: &str) -> Option<Finding> {
    if noticed + PROMOTION <= facts.lease * 2 / 3 {
        return None;
    }
    Some(Finding::new(
        Check::SlowFailover,
        format!(
            "{setting} is {} ms: with the promotion that is longer than what is left of a lease of {} s when it is \
             renewed, so a failover ends leases",
            noticed.as_millis(),
            facts.lease.as_secs_f64()
        ),
        format!("lower {setting}, or use longer leases"),
    ))
}

/// How far a clock is off, in seconds.
fn apart(ahead: i64) -> String {
    let seconds = Duration::from_micros(ahead.unsigned_abs()).as_secs_f64();
    let side = if ahead < 0 { "behind that" } else { "ahead" };
    format!("{seconds:.1} s {side}")
}
