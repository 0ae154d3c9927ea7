//! Decides which of the tiers of docs/guarantees.md these servers reach.

use super::catalogue::{Check, Finding};
use super::facts::{Fact, Facts, Layout};

/// A tier, and its promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tier {
    /// The name: `T0` to `T3`, or `none`.
    pub(crate) name: &'static str,
    pub(crate) says: String,
    /// The ids of the findings that weaken the tier's promise.
    pub(crate) weakened_by: Vec<&'static str>,
    /// Facts that would change the tier or weaken its promise, and that could not be ruled out.
    pub(crate) unverified: Vec<&'static str>,
}

/// The note about the highest tier, which servers alone cannot reach.
pub(crate) const T4_NOTE: &str = "T4, which alone is safe for correctness, has every client send its fencing token, \
                                 which the resource checks (docs/fencing.md)";

/// Findings with which locks may fail or have two holders at any time.
const DISQUALIFYING: [Check; 9] = [
    Check::SeveralServers,
    Check::WritesRefused,
    Check::Eviction,
    Check::MissingCommand,
    Check::MissingKeys,
    Check::SlotsNotServed,
    Check::SentinelsDisagree,
    Check::RedlockNumber,
    Check::RedlockSameServer,
];

/// Findings that make it more likely that a restart or a failover breaks the promise.
const WEAKENING: [Check; 10] = [
    Check::DevelopmentServer,
    Check::NoPersistence,
    Check::SnapshotsOnly,
    Check::PersistenceFailing,
    Check::RedlockPersistence,
    Check::EvictionPolicy,
    Check::ReplicaNotLinked,
    Check::ReplicaBehind,
    Check::MinReplicas,
    Check::ReplicaClock,
];

pub(crate) fn reached(facts: &Facts, findings: &[Finding]) -> Tier {
    let among = |checks: &[Check]| -> Vec<&'static str> {
        let found = findings.iter().map(|finding| finding.check);
        found.filter(|check| checks.contains(check)).map(Check::id).collect()
    };
    let disqualifying = among(&DISQUALIFYING);
    let lost = facts.unreachable.len();
    let has_majority = lost * 2 < facts.primary_count;
    if !disqualifying.is_empty() || (lost > 0 && !(facts.layout == Layout::RedLock && has_majority)) {
        return Tier {
            name: "none",
            says: "none: a lock may fail, or have two holders, without any failure of a server".into(),
            weakened_by: if disqualifying.is_empty() {
                vec![Check::Unreachable.id()]
            } else {
                disqualifying
            },
            unverified: Vec::new(),
        };
    }
    let has_replicas = facts
        .servers
        .iter()
        .any(|server| server.replicas.is_known_and(|replicas| !replicas.is_empty()));
    let (name, says) = match facts.layout {
        Layout::RedLock => (
            "T3",
            "T3: at most one holder while a majority of the primaries is up, and one that lost its data stays away for \
             the longest lease",
        ),
        Layout::Sentinel | Layout::Cluster => ("T1", AFTER_FAILOVER),
        Layout::OneServer if has_replicas => ("T1", AFTER_FAILOVER),
        Layout::OneServer => (
            "T0",
            "T0: at most one holder, as long as the server does not lose its data and nobody sets its clock",
        ),
    };
    Tier {
        name,
        says: says.into(),
        weakened_by: among(&WEAKENING),
        unverified: unverified(facts),
    }
}

const AFTER_FAILOVER: &str = "T1: at most one holder until a failover; a promoted replica that had not received a grant \
                              may grant the lock again";

/// Returns what [`Tier::unverified`] lists.
fn unverified(facts: &Facts) -> Vec<&'static str> {
    let real = || facts.servers.iter().filter(|server| !server.is_for_development());
    let is_unknown = |fact: fn(&&super::facts::Server) -> bool| real().any(|server| fact(&server));
    let of = [
        (is_unknown(|server| is_unknown_fact(&server.memory)), "it may evict"),
        (
            is_unknown(|server| is_unknown_fact(&server.persistence)),
            "it keeps nothing on disk",
        ),
        (
            facts.layout == Layout::OneServer && is_unknown(|server| is_unknown_fact(&server.replicas)),
            "it has replicas (then T1)",
        ),
        (
            facts.layout == Layout::RedLock && is_unknown(|server| is_unknown_fact(&server.run_id)),
            "two of the primaries are one server",
        ),
    ];
    of.into_iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, what)| what)
        .collect()
}

const fn is_unknown_fact<T>(fact: &Fact<T>) -> bool {
    fact.known().is_none()
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Unreachable, samples};
    use super::super::findings::check;
    use super::*;

    fn tier(facts: &Facts) -> Tier {
        reached(facts, &check(facts))
    }

    #[test]
    fn each_layout_reaches_its_tier() {
        for (layout, names, expected) in [
            (Layout::OneServer, &["a"][..], "T1"),
            (Layout::Sentinel, &["a"], "T1"),
            (Layout::Cluster, &["a", "b", "c"], "T1"),
            (Layout::RedLock, &["a", "b", "c"], "T3"),
        ] {
            assert_eq!(tier(&samples::facts(layout, names)).name, expected, "{layout:?}");
        }
        let mut alone = samples::facts(Layout::OneServer, &["a"]);
        alone.servers[0].replicas = Fact::Known(Vec::new());
        assert_eq!(tier(&alone).name, "T0");
    }

    #[test]
    fn a_server_that_may_evict_reaches_no_tier() {
        let mut facts = samples::facts(Layout::OneServer, &["a"]);
        if let Fact::Known(memory) = &mut facts.servers[0].memory {
            memory.policy = "volatile-ttl".into();
        }
        let tier = tier(&facts);
        assert_eq!((tier.name, tier.weakened_by), ("none", vec!["eviction"]));
    }

    #[test]
    fn a_majority_of_redlock_is_enough() {
        let mut facts = samples::facts(Layout::RedLock, &["a", "b"]);
        facts.primary_count = 3;
        facts.unreachable = vec![Unreachable {
            name: "c".into(),
            why: "Connection refused".into(),
        }];
        assert_eq!(tier(&facts).name, "T3");
        facts.primary_count = 2;
        assert_eq!(tier(&facts).name, "none");
    }

    #[test]
    fn unreadable_facts_are_listed_with_the_tier() {
        let mut facts = samples::facts(Layout::Sentinel, &["a"]);
        facts.sentinels = Some(samples::sentinels(3));
        facts.servers[0].memory = Fact::Unknown("INFO is refused (NOPERM)".into());
        assert_eq!(tier(&facts).unverified, ["it may evict"]);
    }
}
