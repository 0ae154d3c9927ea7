//! The address of a primary that sentinels name, as it is known from time to time.
//!
//! ```text
//!   Asked ── a round names one ──► At ── no connection, or none any more ──► Asked
//!     ▲ └─── none does ──► Nowhere ──────── the next attempt ─────────────────┘
//! ```
//!
//! Connections are made in [`Named::At`] only: an attempt waits in [`Named::Asked`], and fails in
//! [`Named::Nowhere`].

use tokio::sync::watch;

use super::address::Address;
use super::failure::Failure;
use crate::tls::Tls;

/// What sentinels say.
#[derive(Clone, Debug)]
pub(super) enum Named {
    /// They are being asked.
    Asked,
    At(Address),
    Nowhere(Failure),
}

/// The server that is named.
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

    /// The last answer may not be true any more: no attempt begins before another round of questions is over.
    pub(super) fn doubt(&self) {
        self.ask_if(|named| matches!(named, Named::At(_)));
    }

    /// An attempt begins, and asks sentinels that knew nothing before. It asks no earlier, so that other
    /// attempts that wait learn why the sentinels knew nothing, too.
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

    /// Waits until sentinels have said where it is.
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
