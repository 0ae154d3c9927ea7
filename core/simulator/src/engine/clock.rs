//! Virtual time: tokio's paused time, which advances at once when every task sleeps.

use steadlock_store::ServerTime;
use tokio::time::Instant;

/// The time that servers' clocks show when a history begins.
const EPOCH: u64 = 1_795_000_000_000_000;
/// The time that clients' clocks show when a history begins. No real clock starts at zero.
const BOOT: u64 = 1_000_000_000;

/// The one clock of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the microseconds since the history began.
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
