//! The address of the primary that sentinels name, as far as it is known.
//!
//! ```text
//!   Asked ── a round names one ──► At ── no connection, or none any more ──► Asked
//!     ▲ └─── none does ──► Nowhere ──────── the next attempt ─────────────────┘
//! ```
//!
//! Connections are only made in [`Named::At`]: an attempt waits in [`Named::Asked`], and fails in [`Named::Nowhere`].

use tokio::sync::watch;

use super::address::Address;
use super::failure::Failure;
use crate::tls::Tls;

/// The last answer of the sentinels.
#[derive(Clone, Debug)]
pub(super) enum Named {
    /// The sentinels are being asked.
    Asked,
    At(Address),
    Nowhere(Failure),
}

/// The primary that sentinels name.
pub(super) struct Elected {
    named: watch::Sender<Named>,
    tls: Option<Tls>,
}

impl Elected {
    pub(super) const fn new(named: watch::Sender<Named>, tls: Option<Tls>) -> Self {
        Self { named, tls }
    }

    pub(super) const fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Marks the last answer as doubtful: no attempt begins before another round of questions is over.
    pub(super) fn doubt(&self) {
        self.ask_if(|named| matches!(named, Named::At(_)));
    }

    /// Asks the sentinels again at the start of an attempt, if they named no primary before. The reset comes no
    /// earlier, so that other waiting attempts still learn the sentinels' reason.
    pub(super) fn ask_again(&self) {
        self.ask_if(|named| matches!(named, Named::Nowhere(_)));
    }

    fn ask_if(&self, is_said: impl FnOnce(&Named) -> bool) {
        self.named.send_if_modified(|named| {
            let is_said = is_said(named);
            if is_said {
                *named = Named::Asked;
            }
            is_said
        });
    }

    /// Waits for the next answer of the sentinels, and returns the address.
    pub(super) async fn address(&self) -> Result<Address, Failure> {
        let mut told = self.named.subscribe();
        let named = told.wait_for(|named| !matches!(named, Named::Asked)).await;
        match named.as_deref() {
            Ok(Named::At(address)) => Ok(address.clone()),
            Ok(Named::Nowhere(failure)) => Err(failure.clone()),
            Ok(Named::Asked) | Err(_) => Err(Failure::unavailable("no sentinel was asked")),
        }
    }
}
