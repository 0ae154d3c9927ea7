//! The environment of a client: the time, randomness, and connections to its servers.
//!
//! A user's client has the machine's environment (on WebAssembly, the program's). With the feature `simulation` a
//! simulator can provide another one; nothing that is shipped turns this feature on. Without the feature a [`World`]
//! has no content.

#[cfg(feature = "simulation")]
use std::{future::Future, io, net::SocketAddr, pin::Pin, sync::Arc};

use steadlock_protocol::{Entropy, Instant};
#[cfg(feature = "native")]
use tokio::io::{AsyncRead, AsyncWrite};

use crate::clock;
#[cfg(feature = "native")]
use crate::entropy;
use crate::entropy::OsEntropy;

/// A connection that carries bytes.
#[cfg(feature = "native")]
#[cfg_attr(not(feature = "simulation"), allow(unreachable_pub))]
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

#[cfg(feature = "native")]
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The purpose of a connection.
#[cfg(feature = "simulation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// Carries calls, also the questions to sentinels and to the nodes of a cluster.
    Commands,
    /// Carries renewals, and releases while the connection for commands is closed.
    Renewals,
    /// Carries messages.
    Subscriptions,
}

/// A future of the simulated world.
#[cfg(feature = "simulation")]
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A simulated environment of a client.
#[cfg(feature = "simulation")]
pub trait Simulated: Send + Sync {
    /// Returns the time in microseconds, which never goes back. Timers are tokio's, so both clocks must advance
    /// together.
    fn now(&self) -> u64;
    /// Returns 64 random bits that only the simulator's seed determines.
    fn draw(&self) -> u64;
    /// Returns the current addresses of a host.
    fn resolve(&self, host: &str, port: u16) -> Vec<SocketAddr>;
    /// Connects to an address.
    fn dial(&self, address: SocketAddr, path: Path) -> BoxFuture<io::Result<Box<dyn Stream>>>;
    /// Runs an engine until it ends.
    fn spawn(&self, engine: BoxFuture<()>);
}

/// The environment of one client.
#[derive(Clone, Default)]
pub(crate) struct World(#[cfg(feature = "simulation")] Option<Arc<dyn Simulated>>);

impl World {
    #[cfg(feature = "simulation")]
    pub(crate) fn simulated(world: Arc<dyn Simulated>) -> Self {
        Self(Some(world))
    }

    /// Returns the simulated environment, if there is one.
    #[cfg(feature = "simulation")]
    pub(crate) const fn simulation(&self) -> Option<&Arc<dyn Simulated>> {
        self.0.as_ref()
    }

    /// Whether the time is simulated. No thread can wait for simulated time.
    #[inline(always)]
    pub(crate) fn is_virtual(&self) -> bool {
        #[cfg(feature = "simulation")]
        return self.0.is_some();
        #[cfg(not(feature = "simulation"))]
        false
    }

    /// Returns the current time of the clock that measures leases.
    #[inline(always)]
    pub(crate) fn now(&self) -> Instant {
        #[cfg(feature = "simulation")]
        if let Some(simulation) = &self.0 {
            return Instant::from_micros(simulation.now());
        }
        clock::now()
    }

    /// Returns the wall clock's time in seconds since 1970; in a simulation, the simulated time in seconds.
    pub(crate) fn seconds(&self) -> u64 {
        let micros = if self.is_virtual() {
            i64::try_from(self.now().as_micros()).unwrap_or(i64::MAX)
        } else {
            clock::wall()
        };
        u64::try_from(micros / 1_000_000).unwrap_or_default()
    }

    /// Returns the machine's name; a fixed text in a simulation and without the feature `native`.
    pub(crate) fn host_name(&self) -> String {
        #[cfg(feature = "native")]
        if !self.is_virtual() {
            let host = gethostname::gethostname().to_string_lossy().into_owned();
            return if host.is_empty() { "localhost".into() } else { host };
        }
        "unknown host".into()
    }

    /// Returns the id of this process; 0 in a simulation and without the feature `native`.
    pub(crate) fn process_id(&self) -> u32 {
        if cfg!(feature = "native") && !self.is_virtual() {
            std::process::id()
        } else {
            0
        }
    }

    /// Returns the name of the program that this process runs, without its folder; empty if it is not known.
    pub(crate) fn executable(&self) -> String {
        #[cfg(feature = "native")]
        if !self.is_virtual() {
            let path = std::env::current_exe().unwrap_or_default();
            return path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        String::new()
    }

    /// Returns a random number in `0..bound`; 0 if `bound` is 0.
    #[cfg(feature = "native")]
    pub(crate) fn below(&self, bound: u64) -> u64 {
        #[cfg(feature = "simulation")]
        if let Some(simulation) = &self.0 {
            return simulation.draw() % bound.max(1);
        }
        entropy::below(bound)
    }

    /// Returns the source of randomness for a session.
    pub(crate) fn entropy(&self) -> Box<dyn Entropy> {
        #[cfg(feature = "simulation")]
        if let Some(simulation) = &self.0 {
            return Box::new(SimulatedEntropy(Arc::clone(simulation)));
        }
        Box::<OsEntropy>::default()
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_virtual() { "simulated" } else { "real" })
    }
}

/// The randomness of a simulated world.
#[cfg(feature = "simulation")]
struct SimulatedEntropy(Arc<dyn Simulated>);

#[cfg(feature = "simulation")]
impl Entropy for SimulatedEntropy {
    fn next_u64(&mut self) -> u64 {
        self.0.draw()
    }
}
