//! The only entry point by which a simulator gives a client its world. This module is not part of the public interface:
//! it exists only with the feature `simulation`, and can change at any time.

use std::sync::Arc;

use steadlock_protocol::Error;

pub use crate::world::{BoxFuture, Path, Simulated, Stream};

use crate::api::{Builder, Client};

/// Connects a client that lives in a simulated world. The world runs the engine as one of its tasks. Such a client must
/// not use calls that block a thread (`blocking`, `Pending::wait`).
///
/// # Errors
/// As [`Builder::connect`].
pub async fn connect(builder: Builder, world: Arc<dyn Simulated>) -> Result<Client, Error> {
    builder.connect_in(world).await
}
