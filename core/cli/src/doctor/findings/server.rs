//! Findings about one server.

use std::time::Duration;

use super::{times, unknown_facts};
use crate::doctor::catalogue::{Check, Finding};
use crate::doctor::facts::{Fact, Facts, Layout, Server, Writes};

/// A replica that has been silent for more than this many seconds is behind. A healthy replica reports every second.
const MAX_REPLICA_LAG: u64 = 5;
/// While a client holds or waits for a lock, it checks the server's role at least this often, on its connection for
/// commands. The check keeps that connection open.
const ROLE_CHECK: Duration = Duration::from_secs(5);
/// The smallest acceptable buffer for a subscriber, in bytes: room for about ten thousand messages of a lock.
const MIN_PUBSUB_BUFFER: u64 = 1 << 20;
/// The shortest acceptable script limit, in milliseconds. When a script runs longer than its limit, other clients are
/// answered BUSY.
const MIN_SCRIPT_LIMIT: u64 = 1_000;

pub(super) fn check(facts: &Facts, server: &Server) -> Vec<Finding> {
    let mut all = Vec::new();
    if let Some(why) = &server.ambiguity {
        all.push(Finding::new(
            Check::SeveralServers,
            format!("{why}: programs refuse the address, and this report is about the server that answered first"),
            "give the address of one server, or use sentinels or a cluster; if it is one server, give the user +info",
        ));
    }
    version(server, &mut all);
    memory(server, &mut all);
    persistence(facts, server, &mut all);
    replicas(facts, server, &mut all);
    connections(facts, server, &mut all);
    times::check(facts, server, &mut all);
    passwordless_login(server, &mut all);
    if let Fact::Known(Writes::Refused(code)) = &server.writes {
        all.push(writes_refused(code));
    }
    if !server.is_for_development() {
        all.extend(unknown_facts::check(facts, server));
    }
    all.into_iter().map(|finding| finding.at(&server.name)).collect()
}

fn version(server: &Server, all: &mut Vec<Finding>) {
    let Fact::Known(version) = &server.version else { return };
    if server.is_for_development() {
        all.push(Finding::new(
            Check::DevelopmentServer,
            "it is steadlock serve, a development server: it keeps all in memory and has no replica",
            "run Redis or Valkey in production",
        ));
    }
    for advisory in version.advisories(server.is_encrypted) {
        let later = advisory.fixed.iter().find(|fixed| **fixed > version.number);
        let Some((major, minor, patch)) = later else { continue };
        all.push(Finding::new(
            Check::Advisory,
            format!(
                "{version} has no fix of {}, by its number (a distribution may have added the fix and kept the number)",
                advisory.id
            ),
            format!("upgrade to {major}.{minor}.{patch} or newer"),
        ));
    }
}

fn memory(server: &Server, all: &mut Vec<Finding>) {
    let Fact::Known(memory) = &server.memory else { return };
    let policy = &memory.policy;
    let no_eviction = "CONFIG SET maxmemory-policy noeviction, and the same in the server's file";
    match (policy == "noeviction", memory.limit) {
        (true, 0) => all.push(Finding::new(
            Check::NoMemoryLimit,
            "maxmemory is not set: a server that grows until the system ends it loses its locks",
            "set maxmemory below the machine's memory, with maxmemory-policy noeviction",
        )),
        (true, _) => {}
        (false, 0) => all.push(Finding::new(
            Check::EvictionPolicy,
            format!("maxmemory-policy is {policy}, which evicts locks that are held once maxmemory is set"),
            no_eviction,
        )),
        (false, _) => all.push(Finding::new(
            Check::Eviction,
            format!("a lock that is held may be evicted, and then has two holders: maxmemory-policy is {policy}"),
            no_eviction,
        )),
    }
    if memory.limit > 0 && memory.used.saturating_mul(10) > memory.limit.saturating_mul(9) {
        all.push(Finding::new(
            Check::MemoryNearlyFull,
            format!(
                "{} of {} MB are used: a full server grants no lock that nobody holds",
                memory.used >> 20,
                memory.limit >> 20
            ),
            "raise maxmemory, or delete what is not needed",
        ));
    }
}

fn persistence(facts: &Facts, server: &Server, all: &mut Vec<Finding>) {
    let Fact::Known(persistence) = &server.persistence else {
        return;
    };
    if let Some(failing) = &persistence.failing {
        all.push(Finding::new(
            Check::PersistenceFailing,
            format!("the last {failing} failed: the server may refuse all writes (MISCONF)"),
            "check the server's log, and the free space on its disk",
        ));
    }
    let fsync = server.fsync.known().map(String::as_str);
    if facts.layout == Layout::RedLock {
        let keeps_all = persistence.has_log && matches!(fsync, Some("always") | None);
        if !keeps_all {
            all.push(Finding::new(
                Check::RedlockPersistence,
                "a primary that restarts without its last writes may give a second owner a majority",
                "set appendonly yes and appendfsync always, or keep a primary that restarted away for the longest lease",
            ));
        }
        return;
    }
    let log = "CONFIG SET appendonly yes, and the same in the server's file";
    match (persistence.has_log, server.has_snapshots.known()) {
        (false, Some(false)) => all.push(Finding::new(
            Check::NoPersistence,
            if server.replicas.is_known_and(|replicas| !replicas.is_empty()) {
                "nothing is kept on disk: after a restart locks that are held are granted again, and replicas lose them \
                 too if none has taken over by then"
            } else {
                "nothing is kept on disk: after a restart locks that are held are granted again"
            },
            log,
        )),
        (false, _) => all.push(Finding::new(
            Check::SnapshotsOnly,
            "only snapshots are kept on disk, at most: after a restart what was locked since the last one is granted \
             again",
            log,
        )),
        (true, _) => {
            if let Some(fsync @ ("everysec" | "no")) = fsync {
                all.push(Finding::new(
                    Check::LastSecond,
                    format!(
                        "appendfsync is {fsync}: if the machine crashes, grants of the last {} may be lost",
                        if fsync == "no" { "half minute" } else { "second" }
                    ),
                    "leave it, unless that matters more than speed: then appendfsync always",
                ));
            }
        }
    }
}

fn replicas(facts: &Facts, server: &Server, all: &mut Vec<Finding>) {
    let Fact::Known(replicas) = &server.replicas else {
        return;
    };
    let is_watched = matches!(facts.layout, Layout::Sentinel | Layout::Cluster);
    if replicas.is_empty() {
        match facts.layout {
            Layout::Sentinel | Layout::Cluster => all.push(Finding::new(
                Check::NoReplica,
                "no replica is linked, so none can take over: when this server fails its locks stop",
                "start a replica of it, or repair the link of the existing one",
            )),
            Layout::OneServer => all.push(Finding::new(
                Check::OneServer,
                "one server without a replica: while it is down nothing is granted",
                "add replicas with sentinels, or use a cluster, if that is too long",
            )),
            Layout::RedLock => {}
        }
    }
    for replica in replicas {
        if !replica.is_linked {
            all.push(Finding::new(
                Check::ReplicaNotLinked,
                format!("the replica {} is not linked, and has old data", replica.address),
                "wait for its first copy to end, or check its log",
            ));
        } else if replica.lag > MAX_REPLICA_LAG {
            all.push(Finding::new(
                Check::ReplicaBehind,
                format!(
                    "the replica {} was last heard from {} s ago: if it takes over, newer grants are lost",
                    replica.address, replica.lag
                ),
                "check whether it hangs, or the network between them fails",
            ));
        }
    }
    if (is_watched || !replicas.is_empty()) && server.min_replicas.is_known_and(|least| *least == 0) {
        all.push(Finding::new(
            Check::MinReplicas,
            "min-replicas-to-write is 0: cut off from its replicas, the server goes on granting locks that are lost \
             with it",
            "CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 10, and the same in the server's file",
        ));
    }
}

fn connections(facts: &Facts, server: &Server, all: &mut Vec<Finding>) {
    // The connection for renewals is idle for a third of the lease, and the connection for commands for `ROLE_CHECK` at
    // most. The sum is longer than both times.
    let longest_idle = facts.lease / 3 + ROLE_CHECK;
    if let Fact::Known(seconds @ 1..) = &server.idle_timeout
        && Duration::from_secs(*seconds) < longest_idle
    {
        all.push(Finding::new(
            Check::IdleTimeout,
            format!("timeout is {seconds} s: the server closes connections between two renewals"),
            "CONFIG SET timeout 0; tcp-keepalive finds clients that are gone",
        ));
    }
    if let Fact::Known(bytes @ 1..) = &server.pubsub_buffer
        && *bytes < MIN_PUBSUB_BUFFER
    {
        all.push(Finding::new(
            Check::PubsubBuffer,
            format!("subscribers are cut off when {bytes} bytes wait for them: waiters then notice releases late"),
            "CONFIG SET client-output-buffer-limit \"pubsub 32mb 8mb 60\"",
        ));
    }
    if let Fact::Known(limit @ 1..) = &server.script_limit
        && *limit < MIN_SCRIPT_LIMIT
    {
        all.push(Finding::new(
            Check::ScriptLimit,
            format!("after {limit} ms of one script all others are answered BUSY"),
            "CONFIG SET lua-time-limit 5000 (from Redis 7.0 on busy-reply-threshold is the same)",
        ));
    }
    if let Fact::Known(connections) = &server.connections
        && connections.open.saturating_mul(10) > connections.most.saturating_mul(8)
    {
        all.push(Finding::new(
            Check::ConnectionsNearlyFull,
            format!(
                "{} of {} connections are open: more clients are turned away",
                connections.open, connections.most
            ),
            "raise maxclients and the limit of open files; a client of Steadlock has three connections",
        ));
    }
    if !server.is_local && !server.is_encrypted {
        all.push(Finding::new(
            Check::Plaintext,
            "the connection leaves this machine without TLS: anybody who listens in can read the password",
            "use rediss:// and the server's tls-port, unless the network is trusted",
        ));
    }
}

fn passwordless_login(server: &Server, all: &mut Vec<Finding>) {
    if !server.passwordless_login.is_allowed.is_known_and(|open| *open) {
        return;
    }
    let from_network = server
        .passwordless_login
        .from_network
        .known()
        .copied()
        .unwrap_or(!server.is_local);
    let remedy = "give the default user a password (requirepass) or turn it off (ACL SETUSER default off), and programs \
                  a user of their own";
    all.push(if from_network {
        Finding::new(
            Check::OpenToAll,
            "the default user has no password and the server listens beyond this machine: anybody who reaches it can \
             take any lock away",
            remedy,
        )
    } else {
        Finding::new(
            Check::NoPassword,
            "the default user has no password: every program on the server's machine can take any lock away",
            remedy,
        )
    });
}

fn writes_refused(code: &str) -> Finding {
    let (why, remedy) = match code {
        "OOM" => ("it is full", "raise maxmemory, or delete what is not needed"),
        "NOREPLICAS" => (
            "fewer replicas are linked than min-replicas-to-write",
            "start the replicas, or repair their links",
        ),
        "MISCONF" => (
            "it cannot write to its disk",
            "check the server's log, and the free space on its disk",
        ),
        "READONLY" | "MASTERDOWN" => ("it is a replica", "give the URL of the primary, or of its sentinels"),
        "CLUSTERDOWN" => (
            "its cluster is down",
            "redis-cli --cluster check shows what is missing, --cluster fix repairs it",
        ),
        "LOADING" => ("it is still loading its data", "wait until it has finished"),
        _ => ("it is busy", "check its slow log"),
    };
    Finding::new(
        Check::WritesRefused,
        format!("it refuses writes, so no lock is granted: {why} ({code})"),
        remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::{Clock, Persistence, Replica, RoundTrip, samples};

    /// Returns the findings about a sample server after `change` has changed it.
    fn checks_after(layout: Layout, change: impl FnOnce(&mut Server)) -> Vec<Check> {
        let mut facts = samples::facts(layout, &["a:6379"]);
        change(&mut facts.servers[0]);
        check(&facts, &facts.servers[0])
            .iter()
            .map(|finding| finding.check)
            .collect()
    }

    #[test]
    fn a_wrong_clock_is_reported_unless_the_round_trip_can_explain_it() {
        let clock = |ahead, uncertainty| {
            checks_after(Layout::OneServer, |server| {
                server.clock = Fact::Known(Clock { ahead, uncertainty });
                // The replica has the same clock. Otherwise its clock would be a second finding.
                if let Fact::Known(replicas) = &mut server.replicas {
                    replicas[0].clock = server.clock.clone();
                }
            })
        };
        assert_eq!(clock(3_000_000, 1_000), [Check::ClockOff]);
        assert_eq!(clock(-3_000_000, 1_000), [Check::ClockOff]);
        assert_eq!(clock(3_000_000, 2_500_000), []);
        assert_eq!(clock(i64::MIN, 0), [Check::ClockOff]);
    }

    #[test]
    fn a_round_trip_is_judged_by_the_lease() {
        let trip = |layout, median, worst| {
            checks_after(layout, |server| {
                server.round_trip = Fact::Known(RoundTrip {
                    median: Duration::from_millis(median),
                    worst: Duration::from_millis(worst),
                });
            })
        };
        assert_eq!(trip(Layout::OneServer, 100, 1_400), []);
        assert_eq!(trip(Layout::OneServer, 100, 1_600), [Check::RoundTripSlow]);
        assert_eq!(trip(Layout::OneServer, 5_100, 5_200), [Check::RoundTripTooLong]);
        assert_eq!(trip(Layout::RedLock, 10, 600), [Check::RoundTripSlow]);
    }

    #[test]
    fn a_failing_disk_is_reported_with_the_failed_operation() {
        let checks = checks_after(Layout::OneServer, |server| {
            server.persistence = Fact::Known(Persistence {
                has_log: true,
                failing: Some("snapshot".into()),
            });
        });
        assert_eq!(checks, [Check::PersistenceFailing]);
    }

    #[test]
    fn redlock_needs_each_write_on_disk() {
        let checks = checks_after(Layout::RedLock, |server| server.fsync = Fact::Known("everysec".into()));
        assert_eq!(checks, [Check::RedlockPersistence]);
    }

    #[test]
    fn each_replica_is_checked() {
        let checks = checks_after(Layout::Sentinel, |server| {
            let replica = |is_linked, lag| Replica {
                clock: Fact::Known(Clock {
                    ahead: 0,
                    uncertainty: 0,
                }),
                address: "b:6379".into(),
                is_linked,
                lag,
            };
            server.replicas = Fact::Known(vec![replica(true, 1), replica(true, 9), replica(false, 0)]);
        });
        assert_eq!(checks, [Check::ReplicaBehind, Check::ReplicaNotLinked]);
    }

    #[test]
    fn unreadable_facts_are_one_note_for_each_reason() {
        let mut facts = samples::facts(Layout::OneServer, &["a:6379"]);
        let refused = || "CONFIG GET is refused (NOPERM)".to_owned();
        facts.servers[0].fsync = Fact::Unknown(refused());
        facts.servers[0].idle_timeout = Fact::Unknown(refused());
        facts.servers[0].memory = Fact::Unknown("INFO is refused (NOPERM)".into());
        let findings = check(&facts, &facts.servers[0]);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings.iter().all(|one| one.check == Check::CannotTell));
        assert!(findings[1].says.contains("appendfsync, timeout"), "{findings:?}");
    }

    #[test]
    fn a_connection_that_leaves_the_machine_needs_tls() {
        let checks = checks_after(Layout::OneServer, |server| server.is_local = false);
        assert_eq!(checks, [Check::Plaintext]);
    }

    #[test]
    fn short_timeouts_and_small_limits_are_reported() {
        let checks = checks_after(Layout::OneServer, |server| {
            server.idle_timeout = Fact::Known(5);
            server.pubsub_buffer = Fact::Known(1_000);
            server.script_limit = Fact::Known(50);
        });
        assert_eq!(checks, [Check::IdleTimeout, Check::PubsubBuffer, Check::ScriptLimit]);
    }
}
