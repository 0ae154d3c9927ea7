//! Judges the facts. All functions are pure.

mod group;
mod permission;
mod server;
mod times;
mod unknown_facts;

use super::catalogue::Finding;
use super::facts::Facts;

/// Returns all findings about these servers, the worst first.
pub(crate) fn check(facts: &Facts) -> Vec<Finding> {
    let mut all = group::check(facts);
    for server in &facts.servers {
        all.extend(server::check(facts, server));
        all.extend(permission::check(facts, server));
    }
    let mut all = merged(all);
    all.sort_by_key(|finding| (std::cmp::Reverse(finding.check.severity()), finding.check));
    all
}

/// Merges findings about different servers into one if their texts are the same.
fn merged(all: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for finding in all {
        let is_same =
            |one: &&mut Finding| (one.check, &one.says, &one.remedy) == (finding.check, &finding.says, &finding.remedy);
        match kept.iter_mut().find(is_same) {
            Some(one) => one.at.extend(finding.at),
            None => kept.push(finding),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::{Check, Severity};
    use super::super::facts::samples;
    use super::super::facts::{Layout, Persistence};
    use super::*;
    use crate::doctor::facts::Fact;

    #[test]
    fn good_servers_have_no_finding_above_info() {
        for (layout, names) in [
            (Layout::OneServer, &["a:6379"][..]),
            (Layout::Cluster, &["a:6379", "b:6379", "c:6379"]),
            (Layout::RedLock, &["a:6379", "b:6379", "c:6379"]),
        ] {
            let findings = check(&samples::facts(layout, names));
            let severe = findings
                .iter()
                .filter(|finding| finding.check.severity() > Severity::Info);
            assert_eq!(severe.count(), 0, "{layout:?}: {findings:?}");
        }
    }

    #[test]
    fn the_worst_comes_first_and_equal_findings_are_merged() {
        let mut facts = samples::facts(Layout::Cluster, &["a:1", "b:1", "c:1"]);
        for server in &mut facts.servers[..2] {
            server.persistence = Fact::Known(Persistence {
                has_log: false,
                failing: None,
            });
            server.has_snapshots = Fact::Known(false);
        }
        if let Fact::Known(memory) = &mut facts.servers[2].memory {
            memory.policy = "allkeys-lru".into();
        }
        let findings = check(&facts);
        let checks: Vec<_> = findings.iter().map(|one| (one.check, one.at.len())).collect();
        assert_eq!(checks, [(Check::Eviction, 1), (Check::NoPersistence, 2)]);
    }
}
