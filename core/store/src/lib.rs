//! An embedded store that runs Steadlock's Lua scripts in-process.
//!
//! The store is a small Redis. It has the data commands that the scripts and the examples use, and publish/subscribe.
//! `EVAL` and `EVALSHA` run in a sandbox that offers what Redis 7 offers (without `cjson`, `cmsgpack`, `struct`, `bit`,
//! and without functions that load code or measure memory). The users of the store are:
//!
//! - `memory://` in the clients, through [`Embedded`];
//! - `steadlock serve`, through the `server` module (feature `server`);
//! - tests and simulations, through [`Store`], which opens no socket, reads no clock and draws no entropy. A function
//!   that needs the server's time takes it as an argument, so the same sequence of calls gives the same replies.
//!
//! The store keeps nothing across restarts and evicts no keys. With [`Limits`] it refuses work that would take too much
//! time or memory. The server sets limits; the other users trust their callers. The store is for development and tests;
//! production runs on Redis or Valkey.

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod capacity;
mod commands;
mod counts;
mod data;
mod dispatch;
mod embedded;
#[doc(hidden)]
pub mod encode;
mod float;
mod glob;
mod info;
mod keyspace;
mod limits;
mod lua;
mod pubsub;
mod random;
mod reply;
#[cfg(feature = "server")]
pub mod server;
mod store;
mod time;
mod value;
mod zset;

pub use data::SlotMigration;
pub use embedded::{Embedded, Subscriber};
pub use limits::{Limits, Scripts};
pub use pubsub::{Delivery, SubscriberId};
pub use reply::{Reply, StoreError};
pub use store::Store;
pub use time::ServerTime;
