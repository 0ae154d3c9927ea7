//! Findings about all servers together: a cluster, sentinels, RedLock.

use super::times::{CLOCK_TOLERANCE, slow_failover};
use crate::doctor::catalogue::{Check, Finding};
use crate::doctor::facts::{Fact, Facts, Layout, Sentinels};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    for server in &facts.unreachable {
        all.push(
            Finding::new(
                Check::Unreachable,
                format!("it cannot be queried: {}", server.why),
                "check that it runs, and that the address and the user are right",
            )
            .at(&server.name),
        );
    }
    cluster(facts, &mut all);
    if let Some(sentinels) = &facts.sentinels {
        check_sentinels(facts, sentinels, &mut all);
    }
    if facts.layout == Layout::RedLock {
        redlock(facts, &mut all);
    }
    clocks(facts, &mut all);
    all
}

fn cluster(facts: &Facts, all: &mut Vec<Finding>) {
    match &facts.coverage {
        Some(Fact::Known(coverage)) if coverage.unserved > 0 => all.push(Finding::new(
            Check::SlotsNotServed,
            format!(
                "{} of 16384 slots are served by no node: locks whose names are there cannot be acquired",
                coverage.unserved
            ),
            "redis-cli --cluster check lists them, --cluster fix assigns them to a node",
        )),
        Some(Fact::Unknown(why)) => all.push(Finding::new(
            Check::CannotTell,
            format!("cannot tell, because {why}: whether all slots are served"),
            "ask as a user that also has +cluster|slots",
        )),
        _ => {}
    }
    let needs_all = facts.servers.iter().filter(|server| {
        let node = server.node.as_ref();
        node.is_some_and(|node| node.needs_full_coverage.is_known_and(|needs| *needs))
    });
    for server in needs_all {
        all.push(
            Finding::new(
                Check::FullCoverage,
                "cluster-require-full-coverage is yes: if one shard fails, the locks of all shards fail",
                "CONFIG SET cluster-require-full-coverage no on every node, and the same in their files",
            )
            .at(&server.name),
        );
    }
}

fn check_sentinels(facts: &Facts, sentinels: &Sentinels, all: &mut Vec<Finding>) {
    let count = sentinels.all.len();
    if count < 3 {
        all.push(Finding::new(
            Check::FewSentinels,
            if count == 1 {
                "only one sentinel watches the primary: when it is gone, nobody makes a replica the primary".into()
            } else {
                format!("only {count} sentinels watch the primary: when one is gone, no majority is left")
            },
            "start three or more, on machines that fail independently",
        ));
    }
    for sentinel in &sentinels.all {
        if let Fact::Unknown(why) = &sentinel.primary {
            all.push(
                Finding::new(
                    Check::SentinelUnreachable,
                    format!("this sentinel names no primary: {why}"),
                    "start it, or remove it from the others by SENTINEL RESET",
                )
                .at(&sentinel.name),
            );
        }
    }
    all.extend(disagreement(sentinels));
    match &sentinels.can_fail_over {
        Fact::Known(Err(why)) => all.push(Finding::new(
            Check::SentinelsWithoutQuorum,
            format!("the sentinels could not agree on a failover now: {why}"),
            "start the sentinels that are down, or lower the quorum by SENTINEL SET",
        )),
        Fact::Known(Ok(())) => {}
        Fact::Unknown(why) => all.push(cannot_tell(why, "whether the sentinels could agree on a failover")),
    }
    match &sentinels.down_after {
        Fact::Known(time) => all.extend(slow_failover(facts, *time, "down-after-milliseconds")),
        Fact::Unknown(why) => all.push(cannot_tell(why, "down-after-milliseconds")),
    }
}

/// Returns a finding if sentinels name different primaries.
fn disagreement(sentinels: &Sentinels) -> Option<Finding> {
    let mut named: Vec<(&str, Vec<&str>)> = Vec::new();
    for sentinel in &sentinels.all {
        let Fact::Known(primary) = &sentinel.primary else {
            continue;
        };
        match named.iter_mut().find(|(known, _)| *known == primary) {
            Some((_, by)) => by.push(&sentinel.name),
            None => named.push((primary, vec![&sentinel.name])),
        }
    }
    if named.len() < 2 {
        return None;
    }
    let sides: Vec<String> = named
        .iter()
        .map(|(primary, by)| format!("{primary} by {}", by.join(", ")))
        .collect();
    Some(Finding::new(
        Check::SentinelsDisagree,
        format!(
            "sentinels name different primaries, so two may grant the same lock: {}",
            sides.join("; ")
        ),
        "wait until a failover that is under way has ended; else correct the sentinel that is wrong by SENTINEL MONITOR",
    ))
}

fn cannot_tell(why: &str, what: &str) -> Finding {
    Finding::new(
        Check::CannotTell,
        format!("cannot tell, because {why}: {what}"),
        "ask as a user of the sentinels that has +sentinel",
    )
}

fn redlock(facts: &Facts, all: &mut Vec<Finding>) {
    if !(3..=15).contains(&facts.primary_count) || facts.primary_count.is_multiple_of(2) {
        all.push(Finding::new(
            Check::RedlockNumber,
            format!(
                "{} primaries are given: clients refuse that, as a majority needs an odd number",
                facts.primary_count
            ),
            "give 3, 5 or 7, 15 at most",
        ));
    }
    for (index, server) in facts.servers.iter().enumerate() {
        let Fact::Known(run_id) = &server.run_id else { continue };
        let earlier = facts.servers.iter().take(index);
        if let Some(same) = earlier
            .into_iter()
            .find(|other| other.run_id.is_known_and(|other| other == run_id))
        {
            all.push(
                Finding::new(
                    Check::RedlockSameServer,
                    format!(
                        "it is the same server as {}: when it fails, two primaries do",
                        same.name
                    ),
                    "give primaries that are independent of one another",
                )
                .at(&server.name),
            );
        }
    }
}

fn clocks(facts: &Facts, all: &mut Vec<Finding>) {
    let known = || {
        facts
            .servers
            .iter()
            .filter_map(|server| Some((server, server.clock.known()?)))
    };
    let (Some(first), Some(last)) = (
        known().min_by_key(|(_, clock)| clock.ahead),
        known().max_by_key(|(_, clock)| clock.ahead),
    ) else {
        return;
    };
    let apart = last.1.ahead.saturating_sub(first.1.ahead);
    if apart
        .saturating_sub(first.1.uncertainty)
        .saturating_sub(last.1.uncertainty)
        > CLOCK_TOLERANCE
    {
        all.push(
            Finding::new(
                Check::ClocksApart,
                format!(
                    "the clocks of two primaries are {:.1} s apart: a lock that moves from one to the other may get \
                     lower fencing tokens there",
                    std::time::Duration::from_micros(apart.unsigned_abs()).as_secs_f64()
                ),
                "keep the clocks of all machines together by NTP",
            )
            .at(&first.0.name)
            .at(&last.0.name),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::doctor::facts::{Clock, Sentinel, samples};

    fn checks(facts: &Facts) -> Vec<Check> {
        check(facts).iter().map(|finding| finding.check).collect()
    }

    fn checks_with_sentinels(change: impl FnOnce(&mut Sentinels)) -> Vec<Check> {
        let mut facts = samples::facts(Layout::Sentinel, &["a:6379"]);
        let mut sentinels = samples::sentinels(3);
        change(&mut sentinels);
        facts.sentinels = Some(sentinels);
        checks(&facts)
    }

    #[test]
    fn three_sentinels_that_agree_are_good() {
        assert_eq!(checks_with_sentinels(|_| {}), []);
    }

    #[test]
    fn sentinels_are_counted_and_compared() {
        assert_eq!(
            checks_with_sentinels(|sentinels| sentinels.all.truncate(1)),
            [Check::FewSentinels]
        );
        let disagree = checks_with_sentinels(|sentinels| sentinels.all[2].primary = Fact::Known("b:6379".into()));
        assert_eq!(disagree, [Check::SentinelsDisagree]);
        let silent = checks_with_sentinels(|sentinels| {
            sentinels.all[1] = Sentinel {
                name: "s1:26379".into(),
                primary: Fact::Unknown("Connection refused".into()),
            };
        });
        assert_eq!(silent, [Check::SentinelUnreachable]);
    }

    #[test]
    fn an_impossible_or_late_failover_is_reported() {
        let no_quorum =
            checks_with_sentinels(|sentinels| sentinels.can_fail_over = Fact::Known(Err("1 of 3 answer".into())));
        assert_eq!(no_quorum, [Check::SentinelsWithoutQuorum]);
        let slow = checks_with_sentinels(|sentinels| sentinels.down_after = Fact::Known(Duration::from_secs(30)));
        assert_eq!(slow, [Check::SlowFailover]);
    }

    #[test]
    fn redlock_needs_an_odd_number_of_independent_servers() {
        let mut facts = samples::facts(Layout::RedLock, &["a", "b", "c", "d"]);
        assert_eq!(checks(&facts), [Check::RedlockNumber]);
        facts.primary_count = 5;
        facts.servers[3].run_id = facts.servers[0].run_id.clone();
        let findings = check(&facts);
        assert_eq!(findings[0].check, Check::RedlockSameServer);
        assert_eq!(findings[0].at, ["d"]);
    }

    #[test]
    fn differing_clocks_of_two_primaries_are_reported() {
        let mut facts = samples::facts(Layout::Cluster, &["a", "b", "c"]);
        facts.servers[1].clock = Fact::Known(Clock {
            ahead: -2_000_000,
            uncertainty: 100,
        });
        let findings = check(&facts);
        assert_eq!(findings[0].check, Check::ClocksApart);
        assert!(findings[0].at.contains(&"b".into()), "{findings:?}");
    }
}
