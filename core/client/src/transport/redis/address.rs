//! Where a server is, as others say.

use std::fmt;
use std::sync::Arc;

use crate::target;

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

    /// What a node says of another; without a host, it is its own.
    pub(super) fn told(host: &str, port: u16, asked: &str) -> Option<Self> {
        match host {
            "?" => None,
            "" => Some(Self::new(asked, port)),
            host => Some(Self::new(host, port)),
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
