//! The way of a call to a server.
//!
//! A [`Transport`] takes the items that the session wants to send, one by one, and reports what it saw. It fulfils the
//! transport's part of the driver contract: the calls of one lane stay in order, a call waits while its node is not
//! connected, and every call is answered once. The engine does not know whether it talks to one server, a cluster or
//! several primaries.

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
