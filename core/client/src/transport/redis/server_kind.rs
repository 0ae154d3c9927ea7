//! The kind of server that a connection expects, and the check of it.

use super::failure::Failure;
use super::role::{Greeting, Version};

/// The kind of server that a connection expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// A server that has every key.
    Standalone,
    /// A node of a cluster, which has a part of the keys.
    ClusterNode,
    /// A sentinel: it has no keys, and knows where the primary is.
    Sentinel,
}

/// The oldest server version whose scripting can run the lock scripts.
const OLDEST: Version = Version { major: 6, minor: 2 };

impl ServerKind {
    /// Checks by a server's greeting that the server is of this kind, and that locks can work with it.
    pub(super) fn check(self, greeting: &Greeting<'_>) -> Result<(), Failure> {
        let Some(version) = greeting.version else {
            return Err(
                Failure::misconfigured("the server's greeting has no version").with_advice("is it Redis or Valkey?")
            );
        };
        if greeting.version_numbers().is_none_or(|version| version < OLDEST) {
            return Err(Failure::too_old(version));
        }
        match (greeting.mode, self) {
            (Some("cluster"), Self::ClusterNode) | (Some("sentinel"), Self::Sentinel) => Ok(()),
            (Some("cluster"), Self::Standalone | Self::Sentinel) => {
                Err(Failure::misconfigured("the server is part of a cluster")
                    .with_advice("connect by redis+cluster://, or rediss+cluster:// with TLS"))
            }
            (Some("sentinel"), _) => Err(Failure::misconfigured("the server is a sentinel")
                .with_advice("connect by redis+sentinel://host,host/service, or rediss+sentinel:// with TLS")),
            (_, Self::Sentinel) => Err(Failure::misconfigured("the server is no sentinel")
                .with_advice("connect by redis://, or rediss:// with TLS")),
            (_, Self::ClusterNode) => Err(Failure::misconfigured("the server is no part of a cluster")
                .with_advice("connect by redis://, or rediss:// with TLS")),
            (_, Self::Standalone) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use steadlock_protocol::{Error, ErrorKind, Reply};

    use super::*;

    fn check(version: &str, mode: &str, server_kind: ServerKind) -> Result<(), Error> {
        let parts = ["server", "redis", "version", version, "mode", mode, "role", "master"];
        let hello = Reply::Array(parts.map(|part| Reply::Bytes(part.into())).to_vec());
        server_kind
            .check(&Greeting::read(&hello))
            .map_err(|failure| failure.into_error("h:1"))
    }

    #[test]
    fn a_new_enough_server_is_accepted() {
        for version in ["6.2.0", "7.0.15", "8.1.0", "10.0"] {
            assert!(
                check(version, "standalone", ServerKind::Standalone).is_ok(),
                "{version}"
            );
            assert!(check(version, "cluster", ServerKind::ClusterNode).is_ok(), "{version}");
            assert!(check(version, "sentinel", ServerKind::Sentinel).is_ok(), "{version}");
        }
    }

    #[test]
    fn an_old_server_and_a_server_of_another_kind_are_misconfigured() {
        for (version, mode, server_kind) in [
            ("6.0.16", "standalone", ServerKind::Standalone),
            ("5", "standalone", ServerKind::Standalone),
            ("7.0.15", "sentinel", ServerKind::Standalone),
            ("7.0.15", "sentinel", ServerKind::ClusterNode),
            ("7.0.15", "standalone", ServerKind::Sentinel),
            ("7.0.15", "cluster", ServerKind::Sentinel),
            ("7.0.15", "cluster", ServerKind::Standalone),
            ("7.0.15", "standalone", ServerKind::ClusterNode),
        ] {
            let error = check(version, mode, server_kind).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            assert_eq!(error.node(), Some("h:1"), "{error}");
        }
    }
}
