//! What a client has around it: the time, randomness, and a way to its servers.
//!
//! Users' clients have the machine's. A simulator gives others (feature `simulation`, which
//! nothing that is shipped turns on); without it a [`World`] is nothing at all, and each
//! question is the machine's answer.

#[cfg(feature = "simulation")]
use std::{future::Future, io, net::SocketAddr, pin::Pin, sync::Arc};

use steadlock_protocol::{Entropy, Instant};
#[cfg(feature = "native")]
use tokio::io::{AsyncRead, AsyncWrite};

use crate::clock;
#[cfg(feature = "native")]
use crate::entropy;
use crate::entropy::OsEntropy;

/// What bytes go through.
#[cfg(feature = "native")]
#[cfg_attr(not(feature = "simulation"), allow(unreachable_pub))]
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

#[cfg(feature = "native")]
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// What a connection is for.
#[cfg(feature = "simulation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// Script calls.
    Commands,
    /// Renewals, and releases.
    Renewals,
    /// Messages.
    Subscriptions,
}

/// A mistake that the engine can be made to make, to prove that a simulation finds it. It is
/// made where [`World::has`] is asked.
#[cfg(feature = "native")]
#[cfg_attr(not(feature = "simulation"), allow(unreachable_pub))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A server in use is not asked whether it is still a primary.
    DemotedServerStays,
    /// Renewals go out on the connection for commands, and wait while it is not open.
    WatchdogStopsWithCommands,
    /// In a cluster, what waits for a node holds up what is for others.
    StuckShardDelaysOthers,
    /// A node that says where a slot is now is not believed.
    MovedIsNotFollowed,
    /// A node that a slot is on its way to is not told that it is meant.
    AskingIsLeftOut,
    /// A call that a node turned away runs after what undoes it.
    UndoneCallsRunLate,
    /// The first sentinel that answers is believed, and none of the others is waited for.
    FirstSentinelWins,
    /// Each connection goes to whatever server the name leads to, wherever the client's others are.
    LanesSplit,
}

/// Something that takes its time.
#[cfg(feature = "simulation")]
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A client's world, when it is not the machine's.
#[cfg(feature = "simulation")]
pub trait Simulated: Send + Sync {
    /// Microseconds, never back. Timers are tokio's: the two go together.
    fn now(&self) -> u64;
    /// 64 bits that nobody can foretell, but by the seed.
    fn draw(&self) -> u64;
    /// The addresses that a host has now.
    fn resolve(&self, host: &str, port: u16) -> Vec<SocketAddr>;
    /// Connects to an address.
    fn dial(&self, address: SocketAddr, path: Path) -> Later<io::Result<Box<dyn Stream>>>;
    /// Runs an engine until it ends.
    fn spawn(&self, engine: Later<()>);
    /// Whether the engine makes this mistake.
    fn has(&self, defect: Defect) -> bool;
}

/// The world of one client.
#[derive(Clone, Default)]
pub(crate) struct World(#[cfg(feature = "simulation")] Option<Arc<dyn Simulated>>);

impl World {
    #[cfg(feature = "simulation")]
    pub(crate) fn simulated(world: Arc<dyn Simulated>) -> Self {
        Self(Some(world))
    }

    /// The simulator's, if it is not the machine's.
    #[cfg(feature = "simulation")]
    pub(crate) const fn given(&self) -> Option<&Arc<dyn Simulated>> {
        self.0.as_ref()
    }

    /// Whether time is a simulator's: then no thread can wait for it.
    #[inline(always)]
    pub(crate) fn is_virtual(&self) -> bool {
        #[cfg(feature = "simulation")]
        return self.0.is_some();
        #[cfg(not(feature = "simulation"))]
        false
    }

    /// Now, by the clock that leases are measured by.
    #[inline(always)]
    pub(crate) fn now(&self) -> Instant {
        #[cfg(feature = "simulation")]
        if let Some(given) = &self.0 {
            return Instant::from_micros(given.now());
        }
        clock::now()
    }

    /// What day and time it is, in seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        let micros = if self.is_virtual() {
            i64::try_from(self.now().as_micros()).unwrap_or(i64::MAX)
        } else {
            clock::wall()
        };
        u64::try_from(micros / 1_000_000).unwrap_or_default()
    }

    /// The machine's name, and the number of this process there. What is simulated is the same on each.
    pub(crate) fn machine(&self) -> (String, u32) {
        #[cfg(feature = "native")]
        if !self.is_virtual() {
            let host = gethostname::gethostname().to_string_lossy().into_owned();
            let host = if host.is_empty() { "localhost".into() } else { host };
            return (host, std::process::id());
        }
        ("unknown host".into(), 0)
    }

    /// The name of the program that this process runs, without its folder; empty where that is not known.
    pub(crate) fn executable(&self) -> String {
        #[cfg(feature = "native")]
        if !self.is_virtual() {
            let path = std::env::current_exe().unwrap_or_default();
            return path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        String::new()
    }

    /// A number in `0..bound`; `bound` must not be 0.
    #[cfg(feature = "native")]
    pub(crate) fn below(&self, bound: u64) -> u64 {
        #[cfg(feature = "simulation")]
        if let Some(given) = &self.0 {
            return given.draw() % bound.max(1);
        }
        entropy::below(bound)
    }

    /// Randomness for a session.
    pub(crate) fn entropy(&self) -> Box<dyn Entropy> {
        #[cfg(feature = "simulation")]
        if let Some(given) = &self.0 {
            return Box::new(Drawn(Arc::clone(given)));
        }
        Box::<OsEntropy>::default()
    }

    /// Whether the engine makes this mistake.
    #[cfg(feature = "simulation")]
    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.0.as_ref().is_some_and(|given| given.has(defect))
    }

    /// Whether the engine makes this mistake: it makes none.
    #[cfg(all(feature = "native", not(feature = "simulation")))]
    #[inline(always)]
    pub(crate) const fn has(&self, _defect: Defect) -> bool {
        false
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_virtual() { "simulated" } else { "real" })
    }
}

/// What a simulator draws.
#[cfg(feature = "simulation")]
struct Drawn(Arc<dyn Simulated>);

#[cfg(feature = "simulation")]
impl Entropy for Drawn {
    fn next_u64(&mut self) -> u64 {
        self.0.draw()
    }
}
