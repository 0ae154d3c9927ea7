//! Connects a client in a world that a simulator makes: its time, its randomness and its connections. This module is
//! not part of the public interface: it exists only with the feature `simulation`, and can change at any time.

use std::sync::Arc;

use steadlock_protocol::Error;

pub use crate::world::{BoxFuture, Path, Simulated, Stream};

use crate::api::{Builder, Client};

/// Connects a client in a simulated world, which runs the engine as one of its tasks. Do not block a thread on such a
/// client (`blocking`, `Pending::wait`), because the simulated time would stand still.
///
/// # Errors
/// As [`Builder::connect`].
pub async fn connect(builder: Builder, world: Arc<dyn Simulated>) -> Result<Client, Error> {
    builder.connect_in(world).await
}
