//! stub
#![forbid(unsafe_code)]

mod clock;
mod engine;
mod entropy;
pub mod host;
mod target;
mod transport;

pub(crate) use host::Host;
