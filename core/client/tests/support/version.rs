//! The server versions for tests. `STEADLOCK_TEST_SERVER` names the one for this run.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::Redis;
use steadlock_protocol::Reply;

/// A server that `ci/support/server` can install.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Redis62,
    /// The server of the system's package manager, the only one here that speaks TLS.
    System,
    Redis82,
    Valkey91,
}

impl Version {
    pub const ALL: [Self; 4] = [Self::Redis62, Self::System, Self::Redis82, Self::Valkey91];

    /// Returns the version for this run: the one that `STEADLOCK_TEST_SERVER` names, by default the system's.
    pub fn chosen() -> Self {
        let name = std::env::var("STEADLOCK_TEST_SERVER").unwrap_or_default();
        if name.is_empty() {
            return Self::System;
        }
        let known = Self::ALL.into_iter().find(|version| version.name() == name);
        known.unwrap_or_else(|| {
            panic!(
                "STEADLOCK_TEST_SERVER is {name:?}: give one of {:?}",
                Self::ALL.map(Self::name)
            )
        })
    }

    /// Returns the version's name in `ci/support/server`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis62 => "6.2",
            Self::System => "system",
            Self::Redis82 => "8.2",
            Self::Valkey91 => "valkey",
        }
    }

    /// Returns the path of the version's program, after installing it if it is missing.
    pub fn program(self) -> &'static str {
        static PROGRAMS: [OnceLock<String>; 4] = [const { OnceLock::new() }; 4];
        PROGRAMS[self as usize].get_or_init(|| {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/support/server");
            let found = Command::new(script).arg(self.name()).stderr(Stdio::inherit()).output();
            let found = found.expect("ci/support/server");
            assert!(found.status.success(), "ci/support/server {} failed", self.name());
            String::from_utf8(found.stdout).expect("a path").trim().into()
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the product and version that a server reports, such as `Redis 6.2.14`.
pub fn of(server: &Redis) -> String {
    let Reply::Bytes(text) = server.run(&["INFO", "server"]) else {
        panic!("INFO gave no text");
    };
    let text = String::from_utf8(text).expect("text");
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    // Valkey also reports the version of Redis that it is compatible with.
    match (field("valkey_version"), field("redis_version")) {
        (Some(version), _) => format!("Valkey {version}"),
        (None, Some(version)) => format!("Redis {version}"),
        (None, None) => panic!("INFO has no version: {text}"),
    }
}
