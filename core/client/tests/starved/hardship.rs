//! Clients for as long as it is told, in a process that gets no threads, loses its descriptors, and whose server has now
//! these addresses and now those: `STEADLOCK_TEST_HARDSHIP_SECONDS`.
//!
//! ```text
//!   this process ── starts ─► the clients' process
//!     the server, its replica,      threads that acquire and release;
//!     proxies, names            ◄── one that says what is to happen, and when it is over;
//!     checks the records        ◄── each hold that lasts
//! ```
//!
//! Whatever happens there: nothing panics, every call ends in time with an answer or with an error of a kind that it may
//! have, no lock has two holders, every lease whose record is gone is told to be lost, and soon after the hardship every
//! client grants locks again, or has said that it never will.

mod clients;
mod outside;
mod worker;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use outside::Outside;

use crate::support::hosts::Hosts;

/// The port of the server, for the process of the clients.
const PORT: &str = "STEADLOCK_TEST_HARDSHIP_PORT";
const SECONDS: &str = "STEADLOCK_TEST_HARDSHIP_SECONDS";
/// The server's.
const NAME: &str = "locks.test";
const TEST: &str = "hardship::no_client_is_dead_and_no_lease_is_lost_without_being_told";

#[test]
fn no_client_is_dead_and_no_lease_is_lost_without_being_told() {
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
    let said = BufReader::new(clients.stdout.take().expect("a pipe"));
    for line in said.lines().map_while(Result::ok) {
        outside.hear(&line);
    }
    let status = clients.wait().expect("a status");
    assert!(status.success(), "{status}");
    outside.end();
}
