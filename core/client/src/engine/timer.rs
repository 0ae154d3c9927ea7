//! The engine's alarm clock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use steadlock_protocol::Instant;

use crate::sleep::Sleep;

/// The longest sleep while something is waited for. Timers stand still while the
/// machine sleeps; the clock does not.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A tokio timer that is set again only when it must ring earlier.
#[derive(Default)]
pub(super) struct Timer {
    sleep: Option<Sleep>,
    rings: Option<Instant>,
}

impl Timer {
    /// Ready when `due` has come by the engine's clock.
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
            // An early ring is answered by looking at the clock.
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
