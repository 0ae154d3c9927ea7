//! How calls reach a server.
//!
//! A [`Transport`] takes what the session wants to send, item by item, and
//! reports what it saw. It keeps the driver's half of the session's law: calls
//! of one lane stay in order, a call waits while its node is not connected, and
//! every call is answered once. Whether that is one server, a cluster or several
//! primaries, the engine does not know.

mod fleet;
mod interface;
#[cfg(feature = "native")]
mod memory;
#[cfg(feature = "native")]
mod open;
#[cfg(not(feature = "native"))]
mod outside;
#[cfg(feature = "native")]
mod redis;

pub(crate) use self::interface::{First, Seen, Transport};
#[cfg(feature = "native")]
pub(crate) use self::open::open;
#[cfg(not(feature = "native"))]
pub(crate) use self::outside::{Line, open};
#[cfg(feature = "admin")]
pub(crate) use self::redis::tools;
