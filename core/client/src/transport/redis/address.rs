//! Where a server is, as others say.

use std::fmt;
use std::sync::Arc;

use steadlock_protocol::is_harmful;

use crate::target;

/// The most bytes of a host's name; a domain name has no more.
const LONGEST: usize = 255;

/// A host and a port.
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

    /// The address that a server gives of another; `None` if no host has that name. Errors and logs repeat it.
    pub(super) fn announced(host: &str, port: u16) -> Option<Self> {
        let is_odd = |character: char| is_harmful(character) || character.is_whitespace();
        let is_host = !host.is_empty() && host.len() <= LONGEST && !host.contains(is_odd);
        is_host.then(|| Self::new(host, port))
    }

    /// What a node says of another; without a host, it is its own.
    pub(super) fn told(host: &str, port: u16, asked: &str) -> Option<Self> {
        match host {
            "?" => None,
            "" => Some(Self::new(asked, port)),
            host => Self::announced(host, port),
        }
    }

    /// Reads `host:port`, as a node says it that was asked at `asked`.
    pub(super) fn read(text: &str, asked: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Self::told(host, port.parse().ok()?, asked)
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
    fn what_is_no_host_is_not_announced() {
        for host in ["h", "redis-0.redis.svc", "10.0.0.1", "fe80::1%eth0", "löck"] {
            assert_eq!(Address::announced(host, 7), Some(Address::new(host, 7)));
        }
        let long = "h".repeat(256);
        for odd in ["", "h\n", "\u{1b}[2Jh", "a b", "h\u{202e}", "h\u{9b}", &long] {
            assert_eq!(Address::announced(odd, 7), None, "{odd:?}");
            assert_eq!(Address::told(odd, 7, "asked").is_some(), odd.is_empty());
        }
        assert_eq!(Address::read("\u{1b}]0;x\u{7}:7000", "here"), None);
    }
}
