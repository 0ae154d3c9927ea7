//! The one door by which a simulator gives a client its world. No part of the interface: it
//! exists with the feature `simulation` only, and may change at any time.

use std::sync::Arc;

use steadlock_protocol::Error;

pub use crate::world::{Defect, Later, Path, Simulated, Stream};

use crate::api::{Builder, Client};

/// Connects a client that lives in a simulated world. Its engine is a task of the world's;
/// what blocks a thread (`blocking`, `Pending::wait`) is not for it.
///
/// # Errors
/// As [`Builder::connect`].
pub async fn connect(builder: Builder, world: Arc<dyn Simulated>) -> Result<Client, Error> {
    builder.connect_in(world).await
}
