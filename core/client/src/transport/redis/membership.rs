//! The kind of server that a connection expects, and the check of it.

use super::failure::Failure;
use super::role::Greeting;

/// The kind of server that a connection expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// A server that has every key.
    Alone,
    /// A node of a cluster, which has a part of the keys.
    Shard,
    /// A sentinel: it has no keys, and knows where the primary is.
    Sentinel,
}

/// The oldest server version whose scripting can run the lock scripts.
const OLDEST: (u32, u32) = (6, 2);

impl Membership {
    /// Checks by the server's greeting that it is of this kind and that locks can work with it.
    pub(super) fn check(self, greeting: &Greeting<'_>) -> Result<(), Failure> {
        let Some(version) = greeting.version else {
            return Err(
                Failure::misconfigured("the server's greeting has no version").with_advice("is it Redis or Valkey?")
            );
        };
        if greeting.numbers().is_none_or(|numbers| numbers < OLDEST) {
            return Err(Failure::too_old(version));
        }
        match (greeting.mode, self) {
            (Some("cluster"), Self::Shard) | (Some("sentinel"), Self::Sentinel) => Ok(()),
            (Some("cluster"), Self::Alone | Self::Sentinel) => {
                Err(Failure::misconfigured("the server is part of a cluster")
                    .with_advice("connect by redis+cluster://, or rediss+cluster:// with TLS"))
            }
            (Some("sentinel"), _) => Err(Failure::misconfigured("the server is a sentinel")
                .with_advice("connect by redis+sentinel://host,host/service, or rediss+sentinel:// with TLS")),
            (_, Self::Sentinel) => Err(Failure::misconfigured("the server is no sentinel")
                .with_advice("connect by redis://, or rediss:// with TLS")),
            (_, Self::Shard) => Err(Failure::misconfigured("the server is no part of a cluster")
                .with_advice("connect by redis://, or rediss:// with TLS")),
            (_, Self::Alone) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use steadlock_protocol::{Error, ErrorKind, Reply};

    use super::*;

    fn check(version: &str, mode: &str, membership: Membership) -> Result<(), Error> {
        let parts = ["server", "redis", "version", version, "mode", mode, "role", "master"];
        let hello = Reply::Array(parts.map(|part| Reply::Bytes(part.into())).to_vec());
        membership
            .check(&Greeting::read(&hello))
            .map_err(|failure| failure.into_error("h:1"))
    }

    #[test]
    fn a_server_that_is_new_enough_will_do() {
        for version in ["6.2.0", "7.0.15", "8.1.0", "10.0"] {
            assert!(check(version, "standalone", Membership::Alone).is_ok(), "{version}");
            assert!(check(version, "cluster", Membership::Shard).is_ok(), "{version}");
            assert!(check(version, "sentinel", Membership::Sentinel).is_ok(), "{version}");
        }
    }

    #[test]
    fn an_old_server_a_sentinel_and_the_other_membership_are_misconfigured() {
        for (version, mode, membership) in [
            ("6.0.16", "standalone", Membership::Alone),
            ("5", "standalone", Membership::Alone),
            ("7.0.15", "sentinel", Membership::Alone),
            ("7.0.15", "sentinel", Membership::Shard),
            ("7.0.15", "standalone", Membership::Sentinel),
            ("7.0.15", "cluster", Membership::Sentinel),
            ("7.0.15", "cluster", Membership::Alone),
            ("7.0.15", "standalone", Membership::Shard),
        ] {
            let error = check(version, mode, membership).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            assert_eq!(error.node(), Some("h:1"), "{error}");
        }
    }
}
