//! Virtual time: tokio's, which stands still until every task sleeps and then goes on at once.

use steadlock_store::ServerTime;
use tokio::time::Instant;

/// What servers' clocks show when a history begins.
const EPOCH: u64 = 1_795_000_000_000_000;
/// What clients' clocks show then. No clock starts at zero.
const BOOT: u64 = 1_000_000_000;

/// The one clock of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Microseconds since the history began.
    pub(super) fn micros(self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn client_time(self) -> u64 {
        BOOT + self.micros()
    }

    pub(super) fn server_time(self) -> ServerTime {
        ServerTime::from_micros(EPOCH + self.micros())
    }
}
