//! Tests of the session in virtual time, with a model of the server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    missing_docs,
    reason = "a test states what must hold, and panics when it does not"
)]

mod acquiring;
mod degraded;
mod expiring;
mod giving_up;
mod grant_messages;
mod holding;
mod identities;
mod lanes;
mod late_grants;
mod losing;
mod observing;
mod operating;
mod outages;
mod queueing;
mod quorum;
mod renewing;
#[path = "../support/seeded.rs"]
mod seeded;
mod short_waits;
mod silent_shards;
mod together;
mod trying;
mod world;
