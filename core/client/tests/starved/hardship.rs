//! Runs clients for `STEADLOCK_TEST_HARDSHIP_SECONDS` in a process that meanwhile cannot start threads, loses its
//! descriptors, and whose server changes its addresses.
//!
//! ```text
//!   this process ── starts ─► the clients' process
//!     the server, its replica,      threads that acquire and release;
//!     proxies, names            ◄── one that orders each hardship, and its end;
//!     checks the records        ◄── each long hold
//! ```
//!
//! The test checks that in all hardships
//!
//! - nothing panics,
//! - every call returns in time, with a result or with an error of an expected kind,
//! - no lock has two holders,
//! - every lease whose record is gone is reported as lost,
//! - soon after each hardship every client grants locks again, or has reported that it never will.

mod clients;
mod outside;
mod worker;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use outside::Outside;

use crate::support::hosts::Hosts;

/// The environment variable with the server's port. Only the process of the clients has it.
const PORT: &str = "STEADLOCK_TEST_HARDSHIP_PORT";
const SECONDS: &str = "STEADLOCK_TEST_HARDSHIP_SECONDS";
/// The host name of the server.
const NAME: &str = "locks.test";
const TEST: &str = "hardship::every_client_recovers_and_every_loss_is_reported";

#[test]
fn every_client_recovers_and_every_loss_is_reported() {
    if let Ok(port) = std::env::var(PORT) {
        let seconds = std::env::var(SECONDS).map_or(12, |seconds| seconds.parse().expect("seconds"));
        return clients::run(&port, Duration::from_secs(seconds));
    }
    let Some(hosts) = Hosts::of(TEST) else { return };
    let outside = Outside::start(hosts);
    let mut clients = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
        .env(PORT, outside.port().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let output = BufReader::new(clients.stdout.take().expect("a pipe"));
    for line in output.lines().map_while(Result::ok) {
        outside.handle_line(&line);
    }
    let status = clients.wait().expect("a status");
    assert!(status.success(), "{status}");
    outside.end();
}
