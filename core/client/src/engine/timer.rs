//! The timer of the engine.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use steadlock_protocol::Instant;

use crate::sleep::Sleep;

/// The longest sleep. Timers stand still while the machine sleeps but the engine's clock does not, so a longer timer
/// could fire much too late.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A tokio timer that is reset only to fire earlier.
#[derive(Default)]
pub(super) struct Timer {
    sleep: Option<Sleep>,
    rings: Option<Instant>,
}

impl Timer {
    /// Ready when the engine's clock reaches `due`. Can also be ready earlier: the caller compares the clock again.
    pub(super) fn poll(&mut self, due: Option<Instant>, now: Instant, context: &mut Context<'_>) -> Poll<()> {
        let Some(due) = due else { return Poll::Pending };
        if now >= due {
            return Poll::Ready(());
        }
        if self.rings.is_none_or(|rings| due < rings || now >= rings) {
            let length = due.saturating_since(now).min(LONGEST_SLEEP);
            let at = tokio::time::Instant::now() + length;
            match &mut self.sleep {
                Some(sleep) => sleep.reset(at),
                None => self.sleep = Some(Sleep::until(at)),
            }
            self.rings = Some(now + length);
        }
        match &mut self.sleep {
            // A timer that fires early makes the engine look at the clock again.
            Some(sleep) => match Pin::new(sleep).poll(context) {
                Poll::Ready(()) => {
                    self.rings = None;
                    Poll::Ready(())
                }
                Poll::Pending => Poll::Pending,
            },
            None => Poll::Pending,
        }
    }
}
