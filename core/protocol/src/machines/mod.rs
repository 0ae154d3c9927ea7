//! The machines of a client's locks. Each owns its state, takes inputs, and says by steps what follows for others.

pub(crate) mod channels;
mod ghosts;
pub(crate) mod holds;
pub(crate) mod inspections;
pub(crate) mod releases;
