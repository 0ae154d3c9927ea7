//! Findings about clocks, round trips and failover times.

use std::time::Duration;

use crate::doctor::catalogue::{Check, Finding};
use crate::doctor::facts::{Fact, Facts, Layout, Server};

/// A clock that is off by more than this many microseconds is a finding.
pub(super) const CLOCK_TOLERANCE: i64 = 1_000_000;
/// The time that a promotion takes, from the moment when the primary counts as down.
const PROMOTION: Duration = Duration::from_secs(2);

pub(super) fn check(facts: &Facts, server: &Server, all: &mut Vec<Finding>) {
    if let Fact::Known(clock) = &server.clock
        && clock.ahead.saturating_abs().saturating_sub(clock.uncertainty) > CLOCK_TOLERANCE
    {
        all.push(Finding::new(
            Check::ClockOff,
            format!(
                "its clock is {} of this machine's: fencing tokens follow it, and repeat if it is set back after the \
                 data was lost",
                describe_offset(clock.ahead)
            ),
            "keep the clocks of all machines together by NTP",
        ));
    }
    replica_clocks(facts, server, all);
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

/// Finds replicas on which records would end early or late after a promotion. The primary sends its replicas the time
/// at which a record ends, and a promoted replica compares that time with its own clock.
fn replica_clocks(facts: &Facts, server: &Server, all: &mut Vec<Finding>) {
    let (Fact::Known(own), Fact::Known(replicas)) = (&server.clock, &server.replicas) else {
        return;
    };
    // A holder's deadline comes this long before the end of its record.
    let margin = facts.lease / 100 + Duration::from_millis(20);
    let margin = i64::try_from(margin.as_micros()).unwrap_or(i64::MAX);
    for replica in replicas {
        let Fact::Known(clock) = &replica.clock else { continue };
        let ahead = clock.ahead.saturating_sub(own.ahead);
        let certain = ahead
            .saturating_abs()
            .saturating_sub(clock.uncertainty)
            .saturating_sub(own.uncertainty);
        let shown = Duration::from_micros(ahead.unsigned_abs()).as_secs_f64();
        let address = &replica.address;
        let says = if ahead > 0 && certain > margin {
            format!(
                "the clock of the replica {address} is {shown:.2} s ahead of its primary's: if it takes over, records end \
                 that much early, before the deadlines of their holders, and a lock may have two owners"
            )
        } else if ahead < 0 && certain > CLOCK_TOLERANCE {
            format!(
                "the clock of the replica {address} is {shown:.2} s behind its primary's: if it takes over, records of \
                 dead holders last that much longer, and fencing tokens may repeat or fall"
            )
        } else {
            continue;
        };
        let remedy = "keep the clocks of primaries and replicas together by NTP";
        all.push(Finding::new(Check::ReplicaClock, says, remedy));
    }
}

/// Returns a finding if an auto-renewed lease could end before a replica has taken over. A renewal is due at a third of
/// the lease, when two thirds of it are left.
pub(super) fn slow_failover(facts: &Facts, detection: Duration, setting: &str) -> Option<Finding> {
    if detection + PROMOTION <= facts.lease * 2 / 3 {
        return None;
    }
    Some(Finding::new(
        Check::SlowFailover,
        format!(
            "{setting} is {} ms: with the promotion that is longer than what is left of a lease of {} s when it is \
             renewed, so a failover ends leases",
            detection.as_millis(),
            facts.lease.as_secs_f64()
        ),
        format!("lower {setting}, or use longer leases"),
    ))
}

/// Describes how far a clock is off, in seconds.
fn describe_offset(ahead: i64) -> String {
    let seconds = Duration::from_micros(ahead.unsigned_abs()).as_secs_f64();
    let side = if ahead < 0 { "behind that" } else { "ahead" };
    format!("{seconds:.1} s {side}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::{Clock, samples};

    /// Returns the message about a replica whose clock is `ahead_ms` ahead of its primary's, for a lease of 10 s.
    fn clock_message(ahead_ms: i64, uncertainty_ms: i64) -> Option<String> {
        let mut facts = samples::facts(Layout::Sentinel, &["a:6379"]);
        facts.lease = Duration::from_secs(10);
        let server = &mut facts.servers[0];
        let clock = |ahead_ms: i64| {
            Fact::Known(Clock {
                ahead: ahead_ms * 1_000,
                uncertainty: uncertainty_ms * 500,
            })
        };
        server.clock = clock(700);
        if let Fact::Known(replicas) = &mut server.replicas {
            replicas[0].clock = clock(700 + ahead_ms);
        }
        let mut all = Vec::new();
        replica_clocks(&facts, &facts.servers[0], &mut all);
        all.pop().map(|finding| finding.says)
    }

    #[test]
    fn a_replica_that_is_ahead_by_more_than_a_holder_s_margin_is_named() {
        for (ahead, uncertainty, is_named) in [(100, 0, false), (121, 0, true), (121, 2, false), (5_000, 2, true)] {
            let message = clock_message(ahead, uncertainty).filter(|message| message.contains("ahead"));
            assert_eq!(
                message.is_some(),
                is_named,
                "{ahead} ms, uncertainty {uncertainty} ms: {message:?}"
            );
        }
    }

    #[test]
    fn a_replica_clock_that_is_behind_is_named_beyond_the_tolerance() {
        for (behind, is_named) in [(500, false), (1_001, true)] {
            let message = clock_message(-behind, 0).filter(|message| message.contains("behind"));
            assert_eq!(message.is_some(), is_named, "{behind} ms: {message:?}");
        }
    }
}
