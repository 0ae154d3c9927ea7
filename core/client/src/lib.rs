//! A distributed lock on Redis or Valkey, shared with Python, Node, Kotlin and Java.
//!
//! ```
//! # fn main() -> Result<(), steadlock::Error> { block_on(async {
//! use steadlock::Client;
//!
//! let client = Client::connect("memory://").await?;
//! let lease = client.lock("stock:42").acquire().await?;
//! // Nobody else holds "stock:42" now.
//! lease.release().await?;
//! # client.close().await;
//! # Ok(()) }) }
//! # fn block_on<F: Future>(f: F) -> F::Output {
//! #     tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(f)
//! # }
//! ```
//!
//! `memory://` keeps its locks in this process, which its forks do not share; it is for tests and for
//! trying things out. A server is `redis://[user:password@]host[:port][/db]`, with TLS
//! `rediss://…`, or `redis+unix:///path`; `valkey` may stand for `redis`. The primary that sentinels watch is
//! `redis+sentinel://[user:password@]host[:port],host/service[/db]`, with TLS
//! `rediss+sentinel://…`; the user is that of the servers, and that of the sentinels is
//! given by `?sentinel_user=…&sentinel_password=…`. One sentinel is enough: it names the others.
//! A cluster is `redis+cluster://[user:password@]host[:port],host`, with TLS `rediss+cluster://…`;
//! here one node is enough.
//!
//! # What a lease promises
//!
//! At most one holder, and it learns of a loss in time. A [`Lease`] is valid until a deadline that
//! is counted from before the request was sent, on a clock that goes on while
//! the machine sleeps, and that counts what a virtual machine was paused once its
//! wall clock is set again. A watchdog on a thread of its own renews it at a third of
//! its length. When it cannot, or when the record is taken away on the server,
//! [`Lease::lost`] completes and [`Lease::is_valid`] turns false. A process that
//! was stopped learns of it late; a resource that remembers the highest
//! [`Lease::token`] it has seen can refuse it.
//!
//! # Threads and runtimes
//!
//! Each client has one thread, "steadlock-engine", that owns its connections. The
//! futures here are woken from it and work on any async runtime. The twins in
//! [`blocking`] need none; a thread that calls them in quick succession, alone,
//! drives the connections itself while it waits, which saves two thread switches
//! a call.
//!
//! # Without threads and sockets
//!
//! All of this is the feature `native`, which is on by default. Without it there is [`host`]
//! alone, also on `wasm32-unknown-unknown`: the program turns the engine, opens the connections
//! and gives the time (`Host::open_driven`).
//!
//! # Traces
//!
//! With the feature `tracing`, off by default, every acquisition by this API has two spans, of any kind of lock,
//! awaited or blocking, with the target `steadlock` and the level `INFO`:
//!
//! | span | from | until | fields |
//! |---|---|---|---|
//! | `steadlock.wait` | the call; of a future, its first poll | its result; of a future that is dropped, that | `steadlock.kind`, `steadlock.lock`, `steadlock.outcome`, `error.type` |
//! | `steadlock.hold` | the grant | the release was answered, or the lease is lost | `steadlock.kind`, `steadlock.lock`, `steadlock.token`, `steadlock.degraded`, `steadlock.outcome`, `steadlock.reason` |
//!
//! Both are children of the span that is current where the wait began, and neither is ever entered.
//! `steadlock.lock` is the name as messages show it. `steadlock.outcome` of a wait is one of `granted`, `degraded`,
//! `timed_out`, `skipped`, `cancelled`, and the failures `unavailable`, `misconfigured`, `refused`, `lost`,
//! `closed`; these have the name of the [`ErrorKind`] as `error.type`. That of a hold is the word of its
//! [`ReleaseOutcome`], also if the lease was dropped and so released in the background; or `lost`. Of `lost`, and
//! of a release that finds the lease `expired` or `stolen`, `steadlock.reason` is the word of the [`LostReason`].
//! Failures and losses that are not `max_hold` or `closed` have `otel.status_code` `ERROR`, which
//! `tracing-opentelemetry` makes the span's status. A hold may end on the engine's thread: a subscriber must not
//! block there.
//!
//! A program that enables `INFO` of the target `steadlock` has the spans; there is nothing to switch on. While no
//! subscriber does, no text is made for them. What else happens to a client is told by `observe::Tracing`.
//!
//! # For tools
//!
//! The feature `admin`, off by default, has the servers behind a URL, and commands of one's own on each of them
//! (`steadlock::admin`).

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

#[cfg(feature = "admin")]
pub mod admin;
#[cfg(feature = "native")]
mod api;
#[cfg(feature = "native")]
mod blocking_pool;
mod clock;
mod engine;
mod entropy;
mod errors;
#[cfg(target_family = "wasm")]
mod given;
pub mod host;
mod introduction;
pub mod observe;
#[cfg(all(feature = "native", unix))]
mod own_file;
#[cfg(feature = "native")]
mod park;
mod port;
mod process;
#[cfg(all(test, feature = "schedules"))]
mod schedules;
mod settings;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
#[cfg(feature = "native")]
mod sleep;
mod sync;
#[cfg_attr(target_family = "wasm", allow(dead_code, reason = "there the program connects"))]
mod target;
#[cfg_attr(target_family = "wasm", allow(dead_code, reason = "there the program connects"))]
mod tls;
mod transport;
mod unwind;
mod world;

pub use steadlock_protocol::{
    ClientInfo, Error, ErrorKind, Holder, LockState, LostReason, OnUnavailable, Operation, ReleaseOutcome,
};

pub use target::AddressMap;

#[cfg(feature = "native")]
pub use api::{Builder, Client, Lease, Lock, ReadWriteLock, Semaphore, blocking};

/// Compiles the README's Rust.
#[cfg(all(doctest, feature = "native"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles that of the crate's own README.
#[cfg(all(doctest, feature = "native"))]
#[doc = include_str!("../README.md")]
struct OwnReadme;

/// Compiles that of the page on metrics.
#[cfg(all(doctest, feature = "native"))]
#[doc = include_str!("../../../docs/metrics.md")]
struct Metrics;
