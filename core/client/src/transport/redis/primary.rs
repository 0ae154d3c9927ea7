//! The address of the primary that sentinels name, as far as it is known.
//!
//! ```text
//!   Pending ── a round names one ──► Known ── a connection fails, or is lost ───► Pending
//!     ▲ └───── none does ──► Unknown ──────── the next attempt ───────────────────┘
//! ```
//!
//! In a round all sentinels are asked once (`sentinel/round.rs`). Connections are only made in
//! [`PrimaryAddress::Known`]: an attempt waits in [`PrimaryAddress::Pending`], and fails in
//! [`PrimaryAddress::Unknown`].

use tokio::sync::watch;

use super::address::Address;
use super::failure::Failure;
use crate::tls::Tls;

/// The last answer of the sentinels.
#[derive(Clone, Debug)]
pub(super) enum PrimaryAddress {
    /// The sentinels are being asked.
    Pending,
    Known(Address),
    Unknown(Failure),
}

/// The primary that sentinels name.
pub(super) struct SentinelPrimary {
    address: watch::Sender<PrimaryAddress>,
    tls: Option<Tls>,
}

impl SentinelPrimary {
    pub(super) const fn new(address: watch::Sender<PrimaryAddress>, tls: Option<Tls>) -> Self {
        Self { address, tls }
    }

    pub(super) const fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Marks the last answer as outdated: attempts wait until another round is over.
    pub(super) fn invalidate(&self) {
        self.request_if(|address| matches!(address, PrimaryAddress::Known(_)));
    }

    /// Asks the sentinels again at the start of an attempt, if they named no primary before. Until then the answer
    /// stays `Unknown`: other attempts that waited for it must still learn the reason.
    pub(super) fn retry(&self) {
        self.request_if(|address| matches!(address, PrimaryAddress::Unknown(_)));
    }

    fn request_if(&self, must_request: impl FnOnce(&PrimaryAddress) -> bool) {
        self.address.send_if_modified(|address| {
            let must_request = must_request(address);
            if must_request {
                *address = PrimaryAddress::Pending;
            }
            must_request
        });
    }

    /// Returns the address that the sentinels name. Waits while they are being asked.
    pub(super) async fn address(&self) -> Result<Address, Failure> {
        let mut receiver = self.address.subscribe();
        let address = receiver
            .wait_for(|address| !matches!(address, PrimaryAddress::Pending))
            .await;
        match address.as_deref() {
            Ok(PrimaryAddress::Known(address)) => Ok(address.clone()),
            Ok(PrimaryAddress::Unknown(failure)) => Err(failure.clone()),
            Ok(PrimaryAddress::Pending) | Err(_) => Err(Failure::unavailable("no sentinel was asked")),
        }
    }
}
