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
//! `memory://` keeps its locks in this process, for tests and for trying things out. A forked child does not share
//! them. The URL of a server is `redis://[user:password@]host[:port][/db]`, with TLS `rediss://…`, or
//! `redis+unix:///path`; `valkey` is accepted in place of `redis`. For a primary that sentinels monitor, the URL is
//! `redis+sentinel://[user:password@]host[:port],host/service[/db]`, with TLS `rediss+sentinel://…`. The user and
//! password before the hosts are for the servers; `?sentinel_user=…&sentinel_password=…` gives those for the sentinels.
//! One sentinel is enough: it names the others. The URL of a cluster is
//! `redis+cluster://[user:password@]host[:port],host`, with TLS `rediss+cluster://…`; one node is enough.
//!
//! # What a lease promises
//!
//! As long as the server keeps its data, a lock has at most one holder. The exceptions are a read side, a semaphore,
//! and the leases that clients grant without a server ([`OnUnavailable::Local`]). A [`Lease`] is valid until its
//! deadline, unless it is lost before. The length of the lease counts from the moment before the client sent the
//! request, so the deadline comes before the end of the record on the server. The client's clock also counts the time
//! for which the machine sleeps. It counts the pause of a virtual machine as soon as the wall clock of that machine is
//! set forward.
//!
//! By default the client renews the lease at a third of its length. When no renewal succeeds before the deadline, or a
//! renewal finds that the holder's record is gone, [`Lease::lost`] completes and [`Lease::is_valid`] turns false. A
//! lease whose length [`Lock::lease`] sets is not renewed, unless [`Lock::renewed`] is called too. The holder of such a
//! fixed lease learns of a loss at the deadline, or earlier from a call that extends or releases the lease. A process
//! that was stopped learns of the loss late. A resource that remembers the highest [`Lease::token`] that it has seen
//! can refuse the late writes of such a process.
//!
//! # Threads and runtimes
//!
//! Each client has one thread, "steadlock-engine", for its connections; with [`Builder::lazy`] the thread starts at the
//! first use. The client wakes the futures of this API itself, so they work on any async runtime. The blocking API in
//! [`blocking`] needs no runtime. A thread that makes blocking calls in quick succession, with no other caller, drives
//! the connections itself while it waits, which saves two thread switches a call.
//!
//! # Without threads and sockets
//!
//! All of the above is in the feature `native`, which is on by default. Without this feature the crate also compiles
//! for `wasm32-unknown-unknown`, and has only [`host`], [`observe`] and the types that they use. The program then runs
//! the engine and opens the connections (`Host::open_driven`); on WebAssembly it also provides the time and the
//! randomness (`host::provide`).
//!
//! # Traces
//!
//! With the feature `tracing`, off by default, every acquisition by this API has a span for its wait and, after a
//! grant, one for its hold. This is so for each kind of lock, awaited or blocking. The target of both spans is
//! `steadlock`, and their level `INFO`:
//!
//! | span | from | until | fields |
//! |---|---|---|---|
//! | `steadlock.wait` | the call; for a future, its first poll | its result, or the drop of its future | `steadlock.kind`, `steadlock.lock`, `steadlock.outcome`, `error.type` |
//! | `steadlock.hold` | the grant | the reply to the release, or the loss of the lease | `steadlock.kind`, `steadlock.lock`, `steadlock.token`, `steadlock.degraded`, `steadlock.outcome`, `steadlock.reason` |
//!
//! Both are children of the span that is current where the wait began, and neither is ever entered. `steadlock.lock` is
//! the lock's name; of a URL in the name, the user and password are left out. A wait has a `steadlock.outcome` of
//! `granted`, `degraded`, `timed_out`, `skipped` or `cancelled`, or one of the failures `unavailable`, `misconfigured`,
//! `refused`, `lost` and `closed`; a failure also has the name of the [`ErrorKind`] as `error.type`. The outcome of a
//! hold is the word of its [`ReleaseOutcome`], or `lost`. The hold of a dropped lease has a [`ReleaseOutcome`] too,
//! because the lease is released in the background. For `lost`, and for a release that finds the lease `expired` or
//! `stolen`, `steadlock.reason` is the word of the [`LostReason`]. Failures, and losses other than `max_hold` and
//! `closed`, have `otel.status_code` `ERROR`, which `tracing-opentelemetry` makes the span's status. A hold can end on
//! the engine's thread: a subscriber must not block there.
//!
//! A program that enables `INFO` of the target `steadlock` has the spans; there is no other switch. While no subscriber
//! enables it, the client makes no text for spans. `observe::Tracing` reports the other events of a client.
//!
//! # For tools
//!
//! The feature `admin`, off by default, lists the servers behind a URL and runs any command on each of them
//! (`steadlock::admin`).

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

#[cfg(feature = "admin")]
pub mod admin;
#[cfg(feature = "native")]
mod api;
#[cfg(feature = "native")]
mod blocking_pool;
mod client_identity;
mod clock;
mod engine;
mod entropy;
#[cfg(target_family = "wasm")]
mod environment;
mod errors;
pub mod host;
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
    Candidate, ClientInfo, EndedRun, Error, ErrorKind, Holder, LastRun, Leadership, LockState, LostReason, OnFailure,
    OnUnavailable, Operation, ReleaseOutcome, RunOutcome, RunState, Skip, SkipReason, TermSeen,
};

pub use target::AddressMap;

#[cfg(feature = "native")]
pub use api::{
    Builder, Client, Leader, Lease, Lock, Observer, Once, ReadWriteLock, Run, RunResult, Semaphore, Skipped, Started,
    Term, blocking,
};

/// Compiles the Rust code of the repository's README.
#[cfg(all(doctest, feature = "native"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the Rust code of the crate's own README.
#[cfg(all(doctest, feature = "native"))]
#[doc = include_str!("../README.md")]
struct OwnReadme;

/// Compiles the Rust code of the page on metrics.
#[cfg(all(doctest, feature = "native"))]
#[doc = include_str!("../../../docs/metrics.md")]
struct Metrics;
