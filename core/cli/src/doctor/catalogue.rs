//! Every possible finding. docs/operations.md has the same table, with an explanation of each.

use std::fmt;

/// How much a finding matters. The worst severity in a report decides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Good to know.
    Info,
    /// Locks work, but promise less than they could, or may fail one day.
    Warning,
    /// Locks fail, or may have two holders.
    Error,
}

impl Severity {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

macro_rules! checks {
    ($($name:ident, $severity:ident, $id:literal;)*) => {
        /// The possible findings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Check {
            $($name,)*
        }

        impl Check {
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name of the finding in the report and in the document.
            pub(crate) const fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)*
                }
            }

            pub(crate) const fn severity(self) -> Severity {
                match self {
                    $(Self::$name => Severity::$severity,)*
                }
            }
        }
    };
}

checks! {
    Unreachable, Error, "unreachable";
    SeveralServers, Error, "several-servers";
    WritesRefused, Error, "writes-refused";
    Eviction, Error, "eviction";
    MissingCommand, Error, "missing-command";
    MissingKeys, Error, "missing-keys";
    OpenToAll, Error, "open-to-all";
    RoundTripTooLong, Error, "round-trip-too-long";
    SlotsNotServed, Error, "slots-not-served";
    SentinelsWithoutQuorum, Error, "sentinels-without-quorum";
    SentinelsDisagree, Error, "sentinels-disagree";
    RedlockNumber, Error, "redlock-number";
    RedlockSameServer, Error, "redlock-same-server";

    DevelopmentServer, Warning, "development-server";
    Advisory, Warning, "advisory";
    EvictionPolicy, Warning, "eviction-policy";
    MemoryNearlyFull, Warning, "memory-nearly-full";
    NoPersistence, Warning, "no-persistence";
    SnapshotsOnly, Warning, "snapshots-only";
    PersistenceFailing, Warning, "persistence-failing";
    RedlockPersistence, Warning, "redlock-persistence";
    NoReplica, Warning, "no-replica";
    ReplicaNotLinked, Warning, "replica-not-linked";
    ReplicaBehind, Warning, "replica-behind";
    MinReplicas, Warning, "min-replicas";
    FullCoverage, Warning, "full-coverage";
    SlowFailover, Warning, "slow-failover";
    FewSentinels, Warning, "few-sentinels";
    SentinelUnreachable, Warning, "sentinel-unreachable";
    ClockOff, Warning, "clock-off";
    ClocksApart, Warning, "clocks-apart";
    ReplicaClock, Warning, "replica-clock";
    RoundTripSlow, Warning, "round-trip-slow";
    Plaintext, Warning, "plaintext";
    MissingMessages, Warning, "missing-messages";
    MissingChannels, Warning, "missing-channels";
    MissingForBraces, Warning, "missing-for-braces";
    IdleTimeout, Warning, "idle-timeout";
    PubsubBuffer, Warning, "pubsub-buffer";
    ScriptLimit, Warning, "script-limit";
    ConnectionsNearlyFull, Warning, "connections-nearly-full";

    OneServer, Info, "one-server";
    NoMemoryLimit, Info, "no-memory-limit";
    LastSecond, Info, "last-second";
    NoPassword, Info, "no-password";
    MissingOptional, Info, "missing-optional";
    CannotTell, Info, "cannot-tell";
}

/// A finding about these servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) check: Check,
    /// The servers or sentinels that the finding is about. Empty if it is about all servers together.
    pub(crate) at: Vec<String>,
    /// The fact, and its consequence.
    pub(crate) says: String,
    /// The recommended remedy.
    pub(crate) remedy: String,
}

impl Finding {
    pub(crate) fn new(check: Check, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            check,
            at: Vec::new(),
            says: says.into(),
            remedy: remedy.into(),
        }
    }

    pub(crate) fn at(mut self, server: &str) -> Self {
        self.at.push(server.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const OPERATIONS: &str = include_str!("../../../../docs/operations.md");

    /// Returns the rows of the document's table of findings: id and severity.
    fn documented() -> Vec<(&'static str, &'static str)> {
        let (_, table) = OPERATIONS.split_once("<!-- doctor:findings -->").unwrap();
        let (table, _) = table.split_once("<!-- /doctor:findings -->").unwrap();
        let row = |line: &'static str| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            Some((cells.next()?.strip_suffix('`')?, cells.next()?))
        };
        table.lines().filter_map(row).collect()
    }

    #[test]
    fn the_document_has_the_same_findings_in_the_same_order() {
        let known: Vec<_> = Check::ALL
            .iter()
            .map(|check| (check.id(), check.severity().as_str()))
            .collect();
        assert_eq!(documented(), known);
    }

    #[test]
    fn an_id_stands_for_one_finding() {
        let ids: BTreeSet<_> = Check::ALL.iter().map(|check| check.id()).collect();
        assert_eq!(ids.len(), Check::ALL.len());
    }
}
