//! The address of a server that another server announces.

use std::fmt;
use std::sync::Arc;

use steadlock_protocol::is_harmful;

use crate::target;

/// The limit of a host name in bytes, which is that of a domain name.
const MAX_HOST_BYTES: usize = 255;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: Arc<str>,
    pub(super) port: u16,
}

impl Address {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// Returns an address that a server announces for another one. `None` if the host is not a possible name: errors
    /// and logs repeat the host, so it must be harmless.
    pub(super) fn announced(host: &str, port: u16) -> Option<Self> {
        let is_refused = |character: char| is_harmful(character) || character.is_whitespace();
        let is_host = !host.is_empty() && host.len() <= MAX_HOST_BYTES && !host.contains(is_refused);
        is_host.then(|| Self::new(host, port))
    }

    /// Returns the address that a node announces for another one. An empty host stands for the node's own host,
    /// `asked_host`. `None` for the host `?`, which the node does not know, and for an impossible host.
    pub(super) fn from_reply(host: &str, port: u16, asked_host: &str) -> Option<Self> {
        match host {
            "?" => None,
            "" => Some(Self::new(asked_host, port)),
            host => Self::announced(host, port),
        }
    }

    /// Reads the `host:port` that the node at the host `asked_host` announces.
    pub(super) fn parse(text: &str, asked_host: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Self::from_reply(host, port.parse().ok()?, asked_host)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&target::address(&self.host, self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announced_host_that_is_no_host_name_is_refused() {
        for host in ["h", "redis-0.redis.svc", "10.0.0.1", "fe80::1%eth0", "löck"] {
            assert_eq!(Address::announced(host, 7), Some(Address::new(host, 7)));
        }
        let long = "h".repeat(256);
        for odd in ["", "h\n", "\u{1b}[2Jh", "a b", "h\u{202e}", "h\u{9b}", &long] {
            assert_eq!(Address::announced(odd, 7), None, "{odd:?}");
            assert_eq!(Address::from_reply(odd, 7, "asked").is_some(), odd.is_empty());
        }
        assert_eq!(Address::parse("\u{1b}]0;x\u{7}:7000", "here"), None);
    }
}
