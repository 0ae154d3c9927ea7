//! Drives the engine: on its own thread, or on that of a caller which would only wait for it.
//!
//! A call that blocks costs two wake-ups of a thread more than its round trip:
//! the engine's, and the caller's own. A thread that calls again and again, with
//! nobody else calling, saves both by driving the engine itself while it waits.
//!
//! ```text
//!              a run of quick calls by one thread
//!   Engine ───────────────────────────────────────► Caller
//!     ▲    the engine's thread stands by              │
//!     └───────────────────────────────────────────────┘
//!       a second caller, an event loop's call, a call
//!       that takes long, or no call for a millisecond,
//!       a lane that is not open, a renewal that is near
//! ```
//!
//! It is the same engine and the same runtime on another thread, and nobody else's
//! code runs meanwhile. But a caller comes and goes as it likes, and may be stopped
//! at any time; so what keeps locks, connecting and renewing, is left to the
//! engine's thread.
//!
//! In a simulator's virtual time nobody drives but the simulator: the engine never
//! allows it (`turn.rs`), so this reads the machine's clock only.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, select};
use steadlock_protocol::Instant;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::who_drives::{Role, WhoDrives};
use crate::clock;

/// A call that takes longer is waited for without driving.
const LONGEST_DRIVE: Duration = Duration::from_millis(5);

/// The engine's runtime, and whose turn it is to drive it.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    /// `None` before the engine starts and after it ends.
    runtime: RwLock<Option<Runtime>>,
    who: WhoDrives,
    /// Tells the engine's thread to stand by.
    stand_by: Notify,
}

impl Driver {
    /// Drives `engine` on this thread until it ends, except while callers do.
    pub(crate) fn run<T>(&self, runtime: Runtime, mut engine: JoinHandle<T>) -> Option<T> {
        *self.runtime.write().unwrap_or_else(PoisonError::into_inner) = Some(runtime);
        let result = {
            let runtime = self.runtime.read().unwrap_or_else(PoisonError::into_inner);
            loop {
                let Some(runtime) = &*runtime else { break None };
                match runtime.block_on(select(&mut engine, pin!(self.stand_by.notified()))) {
                    Either::Left((result, _)) => break result.ok(),
                    Either::Right(_) => self.who.stand_by(clock::now),
                }
            }
        };
        let runtime = self.runtime.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            // A name may still be being resolved; nobody waits for that.
            runtime.shutdown_background();
        }
        result
    }

    /// The engine says, before it hands out what a turn brought, whether callers may
    /// drive: while every lane is open, and until a renewal is near.
    pub(crate) fn allow_callers(&self, every_lane_is_open: bool, next_renewal: Option<Instant>) {
        self.who.allow_callers(every_lane_is_open, next_renewal, clock::now);
    }

    /// Something needs the engine that no waiting thread drives.
    pub(crate) fn needs_engine(&self) {
        self.who.needs_engine();
    }

    /// A thread begins to wait for a result. Call `drive`, and drop it when the
    /// result is there.
    pub(crate) fn enter(&self) -> Caller<'_> {
        Caller {
            is_alone: self.who.enter(),
            driver: self,
        }
    }

    /// Whether the calling thread, which waits alone, is to drive.
    fn elect(&self) -> bool {
        match self.who.elect(clock::now) {
            Role::Waits => false,
            Role::Drives => true,
            Role::TakesOver => {
                self.stand_by.notify_one();
                true
            }
        }
    }
}

/// A thread that waits for a result.
pub(crate) struct Caller<'a> {
    driver: &'a Driver,
    is_alone: bool,
}

impl Caller<'_> {
    /// Drives the engine until `poll` is ready, if that is this thread's to do;
    /// `None` if it is not, or took too long: then wait without driving.
    pub(crate) fn drive<T>(&self, timeout: Duration, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        // Inside another runtime a thread may not drive one.
        if !self.is_alone || Handle::try_current().is_ok() {
            self.driver.needs_engine();
            return None;
        }
        if !self.driver.elect() {
            return None;
        }
        let guard = self.driver.runtime.read().unwrap_or_else(PoisonError::into_inner);
        let runtime = guard.as_ref()?;
        let result = runtime.block_on(async {
            tokio::time::timeout(timeout.min(LONGEST_DRIVE), poll_fn(&mut poll))
                .await
                .ok()
        });
        if result.is_none() {
            self.driver.needs_engine();
        }
        result
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.driver.who.leave(clock::now());
    }
}
