//! The facts about the servers: plain data, gathered by `gather` and judged by `findings`. A fact that cannot be read
//! is unknown, with the reason.

use std::time::Duration;

pub(crate) use super::layout::Layout;
use super::rights::Rights;
use super::version::{Product, Version};

/// A fact, if it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact<T> {
    Known(T),
    /// The reason why the fact could not be read, such as `CONFIG GET is refused`.
    Unknown(String),
}

impl<T> Fact<T> {
    pub(crate) const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// Returns whether the fact is known and `holds` is true for it.
    pub(crate) fn is_known_and(&self, holds: impl FnOnce(&T) -> bool) -> bool {
        self.known().is_some_and(holds)
    }

    pub(crate) fn why_unknown(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::Unknown(why) => Some(why),
        }
    }

    /// Returns another fact that `read` finds in this one. The new fact, which `what` names, is unknown if this one is
    /// unknown or if `read` returns `None`.
    pub(crate) fn then<U>(self, read: impl FnOnce(T) -> Option<U>, what: &str) -> Fact<U> {
        match self {
            Self::Known(value) => match read(value) {
                Some(value) => Fact::Known(value),
                None => Fact::Unknown(format!("the server does not say {what}")),
            },
            Self::Unknown(why) => Fact::Unknown(why),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) layout: Layout,
    /// The shortest lease of the programs.
    pub(crate) lease: Duration,
    /// The prefix of the names of the programs' locks.
    pub(crate) prefix: String,
    pub(crate) database: i64,
    /// The number of URLs. More than one means RedLock, with one primary for each URL.
    pub(crate) primary_count: usize,
    /// The primaries that answered.
    pub(crate) servers: Vec<Server>,
    /// The primaries that could not be queried.
    pub(crate) unreachable: Vec<Unreachable>,
    /// The coverage of the slots, if the servers are a cluster.
    pub(crate) coverage: Option<Fact<Coverage>>,
    pub(crate) sentinels: Option<Sentinels>,
}

#[derive(Clone, Debug)]
pub(crate) struct Unreachable {
    pub(crate) name: String,
    pub(crate) why: String,
}

/// One primary.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// The address of the primary.
    pub(crate) name: String,
    /// The reason why the address does not lead to this server alone; `None` if it does.
    pub(crate) ambiguity: Option<String>,
    /// Whether the connection to the server stays on this machine.
    pub(crate) is_local: bool,
    pub(crate) is_encrypted: bool,
    pub(crate) version: Fact<Version>,
    pub(crate) run_id: Fact<String>,
    pub(crate) memory: Fact<Memory>,
    pub(crate) persistence: Fact<Persistence>,
    /// Whether the server writes snapshots by itself.
    pub(crate) has_snapshots: Fact<bool>,
    /// The setting `appendfsync`.
    pub(crate) fsync: Fact<String>,
    pub(crate) replicas: Fact<Vec<Replica>>,
    pub(crate) min_replicas: Fact<u64>,
    /// The server closes a connection after this many seconds without a command; 0 for never.
    pub(crate) idle_timeout: Fact<u64>,
    /// The hard limit of the output buffer of a subscriber, in bytes; 0 for none.
    pub(crate) pubsub_buffer: Fact<u64>,
    /// After a script has run for this many milliseconds, the server answers all other clients BUSY; 0 for never.
    pub(crate) script_limit: Fact<u64>,
    pub(crate) connections: Fact<Connections>,
    pub(crate) clock: Fact<Clock>,
    pub(crate) round_trip: Fact<RoundTrip>,
    pub(crate) writes: Fact<Writes>,
    pub(crate) rights: Rights,
    pub(crate) passwordless_login: PasswordlessLogin,
    pub(crate) node: Option<Node>,
}

impl Server {
    /// Returns whether this is `steadlock serve`, which has no settings for `CONFIG GET`.
    pub(crate) fn is_for_development(&self) -> bool {
        self.version
            .is_known_and(|version| version.product == Product::Steadlock)
    }
}

/// The memory of the server, as `INFO memory` reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The setting `maxmemory`, in bytes; 0 for none.
    pub(crate) limit: u64,
    pub(crate) used: u64,
    pub(crate) policy: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Persistence {
    /// Whether the server writes an append-only file.
    pub(crate) has_log: bool,
    /// The part of the persistence that fails; `None` if none does.
    pub(crate) failing: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) address: String,
    pub(crate) is_linked: bool,
    /// Seconds since the primary last received a message from the replica.
    pub(crate) lag: u64,
    pub(crate) clock: Fact<Clock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connections {
    pub(crate) open: u64,
    pub(crate) most: u64,
}

/// The difference between a server's clock and this machine's, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) ahead: i64,
    /// The possible error of `ahead`.
    pub(crate) uncertainty: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    pub(crate) median: Duration,
    pub(crate) worst: Duration,
}

/// The result of a write to a scratch key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    Accepted,
    /// The server refused the write, with this first word of its error, such as `OOM`.
    Refused(String),
}

/// Whether and from where clients can log in without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PasswordlessLogin {
    /// Whether the default user has no password.
    pub(crate) is_allowed: Fact<bool>,
    /// Whether the server accepts a user without a password from other machines.
    pub(crate) from_network: Fact<bool>,
}

/// Facts that only a node of a cluster has.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) needs_full_coverage: Fact<bool>,
    pub(crate) timeout: Fact<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coverage {
    /// The number of slots that no node serves.
    pub(crate) unserved: u32,
}

/// The sentinels that watch a primary.
#[derive(Clone, Debug)]
pub(crate) struct Sentinels {
    /// All sentinels that the URL names or that another sentinel knows.
    pub(crate) all: Vec<Sentinel>,
    pub(crate) quorum: Fact<u64>,
    /// The time without an answer after which the sentinels consider the primary down.
    pub(crate) down_after: Fact<Duration>,
    /// Whether the sentinels could agree on a failover now, or what prevents it.
    pub(crate) can_fail_over: Fact<Result<(), String>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Sentinel {
    pub(crate) name: String,
    /// The primary that the sentinel names, or the reason why it names none.
    pub(crate) primary: Fact<String>,
}

#[cfg(test)]
pub(crate) mod samples {
    //! Sample servers without any fault.

    use super::*;

    pub(crate) fn server(name: &str) -> Server {
        Server {
            name: name.into(),
            ambiguity: None,
            is_local: true,
            is_encrypted: false,
            version: Fact::Known(Version::parse(Product::Valkey, "9.1.2").unwrap()),
            run_id: Fact::Known(format!("run-{name}")),
            memory: Fact::Known(Memory {
                limit: 1 << 30,
                used: 1 << 20,
                policy: "noeviction".into(),
            }),
            persistence: Fact::Known(Persistence {
                has_log: true,
                failing: None,
            }),
            has_snapshots: Fact::Known(true),
            fsync: Fact::Known("always".into()),
            replicas: Fact::Known(vec![Replica {
                address: "replica:6379".into(),
                is_linked: true,
                lag: 0,
                clock: Fact::Known(Clock {
                    ahead: 120,
                    uncertainty: 50,
                }),
            }]),
            min_replicas: Fact::Known(1),
            idle_timeout: Fact::Known(0),
            pubsub_buffer: Fact::Known(32 << 20),
            script_limit: Fact::Known(5_000),
            connections: Fact::Known(Connections { open: 10, most: 10_000 }),
            clock: Fact::Known(Clock {
                ahead: 100,
                uncertainty: 50,
            }),
            round_trip: Fact::Known(RoundTrip {
                median: Duration::from_micros(200),
                worst: Duration::from_millis(1),
            }),
            writes: Fact::Known(Writes::Accepted),
            rights: Rights::default(),
            passwordless_login: PasswordlessLogin {
                is_allowed: Fact::Known(false),
                from_network: Fact::Known(true),
            },
            node: None,
        }
    }

    pub(crate) fn facts(layout: Layout, names: &[&str]) -> Facts {
        Facts {
            layout,
            lease: Duration::from_secs(30),
            prefix: "orders:".into(),
            database: 0,
            primary_count: names.len(),
            servers: names.iter().map(|name| server(name)).collect(),
            unreachable: Vec::new(),
            coverage: None,
            sentinels: None,
        }
    }

    pub(crate) fn sentinels(count: usize) -> Sentinels {
        let sentinel = |number| Sentinel {
            name: format!("s{number}:26379"),
            primary: Fact::Known("a:6379".into()),
        };
        Sentinels {
            all: (0..count).map(sentinel).collect(),
            quorum: Fact::Known(2),
            down_after: Fact::Known(Duration::from_secs(5)),
            can_fail_over: Fact::Known(Ok(())),
        }
    }
}
