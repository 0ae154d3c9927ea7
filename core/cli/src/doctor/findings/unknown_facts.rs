//! Findings about facts that could not be read.

use crate::doctor::catalogue::{Check, Finding};
use crate::doctor::facts::{Fact, Facts, Layout, Server};

/// Returns one note for each reason, with all facts that are unknown for that reason.
pub(super) fn check(facts: &Facts, server: &Server) -> Vec<Finding> {
    let node = server.node.as_ref();
    let unknown = [
        ("its version", server.version.why_unknown()),
        ("maxmemory and maxmemory-policy", server.memory.why_unknown()),
        ("whether there is an append-only file", server.persistence.why_unknown()),
        ("whether there are snapshots", server.has_snapshots.why_unknown()),
        ("appendfsync", server.fsync.why_unknown()),
        ("its replicas", server.replicas.why_unknown()),
        ("min-replicas-to-write", server.min_replicas.why_unknown()),
        ("timeout", server.idle_timeout.why_unknown()),
        ("client-output-buffer-limit", server.pubsub_buffer.why_unknown()),
        ("lua-time-limit", server.script_limit.why_unknown()),
        ("its open connections", server.connections.why_unknown()),
        // A missing right to `TIME` is reported as another finding.
        (
            "its clock",
            server
                .clock
                .why_unknown()
                .filter(|_| !server.rights.commands.contains(&"time")),
        ),
        ("the clock of a replica", clock_of_a_replica(server)),
        ("the round trip", server.round_trip.why_unknown()),
        ("whether it writes", server.writes.why_unknown()),
        (
            "whether the default user has a password",
            server.passwordless_login.is_allowed.why_unknown(),
        ),
        (
            "cluster-require-full-coverage",
            node.and_then(|node| node.needs_full_coverage.why_unknown()),
        ),
        ("cluster-node-timeout", node.and_then(|node| node.timeout.why_unknown())),
        (
            "whether primaries are one server",
            Some(&server.run_id)
                .filter(|_| facts.layout == Layout::RedLock)
                .and_then(Fact::why_unknown),
        ),
    ];
    let unknown = unknown.iter().filter_map(|(what, why)| Some((*what, (*why)?)));
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (what, why) in unknown {
        match by_reason.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, all)) => all.push(what),
            None => by_reason.push((why, vec![what])),
        }
    }
    let finding = |(why, what): (&str, Vec<&str>)| {
        Finding::new(
            Check::CannotTell,
            format!("cannot tell, because {why}: {}", what.join(", ")),
            "ask as a user that also has +info and +config|get, or ask the people who run the server",
        )
    };
    by_reason.into_iter().map(finding).collect()
}

/// Returns the reason why the clock of a replica is unknown, for the first such replica.
fn clock_of_a_replica(server: &Server) -> Option<&str> {
    let replicas = server.replicas.known()?;
    replicas.iter().find_map(|replica| replica.clock.why_unknown())
}
