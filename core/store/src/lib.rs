//! An embedded store that runs Steadlock's Lua scripts in-process.
//!
//! It is a small Redis: the data commands that the scripts and the examples
//! use, `EVAL` and `EVALSHA` in a sandbox that has what Redis 7 offers (without
//! `cjson`, `cmsgpack`, `struct`, `bit`, and without what loads or measures
//! code), and publish/subscribe. It serves three ends:
//!
//! - `memory://` in the clients, by way of [`Embedded`];
//! - `steadlock serve`, by way of the `server` module (feature `server`);
//! - tests and simulations, by way of [`Store`], which opens no socket, reads
//!   no clock and draws no entropy: the server's time is an argument of every
//!   entry, so that one sequence of calls gives one sequence of replies.
//!
//! It keeps nothing across restarts and evicts nothing. A store with [`Limits`]
//! refuses what would take too much time or memory; the server's has them, the
//! others trust their callers. It is for development and tests; production runs
//! on Redis or Valkey.

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

pub use data::Transit;
pub use embedded::{Embedded, Subscriber};
pub use limits::{Limits, Scripts};
pub use pubsub::{Delivery, SubscriberId};
pub use reply::{Reply, StoreError};
pub use store::Store;
pub use time::ServerTime;
