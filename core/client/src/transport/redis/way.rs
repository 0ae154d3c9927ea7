//! A way to a server, and the connection that it led to.

use std::path::PathBuf;
use std::sync::Arc;

use super::dial::Tcp;
use super::failure::Failure;
use super::identity::Mark;
use super::outage::Until;
use super::place::Announced;
use super::primary::Elected;
use super::purpose::Purpose;
use super::tls::{TlsDialer, TlsOutcome};
use super::wire::Wire;

/// The way in which connections begin.
pub(super) enum Dialer {
    Tcp(Tcp),
    Unix(PathBuf),
    Tls(TlsDialer),
    /// To a server that others announce, wherever that is reached.
    Announced(Announced),
    /// To whatever server sentinels name at that time.
    Elected(Elected),
}

impl Dialer {
    /// The host, where one is dialled.
    pub(super) const fn tcp(&self) -> Option<&Tcp> {
        match self {
            Self::Tcp(tcp) => Some(tcp),
            Self::Tls(dialer) => Some(dialer.tcp()),
            Self::Unix(_) | Self::Announced(_) | Self::Elected(_) => None,
        }
    }
}

/// A way to a server, to which, and what for.
pub(super) struct Way<'a> {
    pub(super) dialer: &'a Dialer,
    pub(super) node: &'a str,
    pub(super) purpose: Purpose,
    pub(super) until: &'a Until,
}

/// A connection on which a server has said that it will do.
pub(super) struct Candidate {
    pub(super) wire: Wire,
    pub(super) mark: Mark,
    pub(super) outcome: Option<Arc<TlsOutcome>>,
}

impl Candidate {
    /// The failure, or what the TLS library knows of it.
    pub(super) fn explained(&self, failure: Failure) -> Failure {
        match &self.outcome {
            Some(outcome) => outcome.failure(failure),
            None => failure,
        }
    }
}
