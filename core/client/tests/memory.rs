//! Tests that the memory of a client's process does not grow with the number of its locks and leases.
//!
//! With `STEADLOCK_LONG=1` the test uses a million names and 100,000 leases (`./ci/just test-long`).
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use steadlock::host::{Acquire, Completion, Event, Host, Kind, LockRef, Op, Options};

/// The factor by which the memory may grow after the warm-up. Allocators keep some free pages.
const FLAT: f64 = 1.25;
/// A growth by fewer bytes than this is always allowed, because it can come from other parts of the process.
const FLOOR: usize = 4 << 20;

fn count(long: usize) -> usize {
    if std::env::var_os("STEADLOCK_LONG").is_some() {
        long
    } else {
        50_000
    }
}

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

fn check_flat(before: usize, what: &str) {
    let after = resident();
    println!("{what}: {} kB, then {} kB", before >> 10, after >> 10);
    let allowed = (before as f64 * FLAT) as usize;
    assert!(
        after < allowed.max(before + FLOOR),
        "{what}: {} kB, then {} kB",
        before >> 10,
        after >> 10
    );
}

fn lock(number: usize) -> Acquire {
    Acquire {
        lock: LockRef::One(Kind::Lock, format!("name-{number}")),
        lease_ms: Some(300.0),
        // A server keeps tokens for a minute, and the embedded store would keep them in this process.
        no_fencing: true,
        ..Acquire::default()
    }
}

fn run(host: &Host, op: Op) -> Completion {
    host.start(op)
        .wait(Duration::from_secs(60))
        .expect("an answer")
        .unwrap()
}

fn changing_names(host: &Host, from: usize, count: usize) {
    for number in from..from + count {
        let Completion::Granted(lease) = run(host, Op::Acquire(lock(number))) else {
            panic!("not granted")
        };
        run(host, Op::Release { lease: lease.id() });
    }
}

/// Acquires leases that nothing releases, and waits until they have expired.
fn expiring_leases(host: &Host, from: usize, count: usize) {
    const AT_A_TIME: usize = 1_000;
    let mut events = Vec::new();
    for first in (from..from + count).step_by(AT_A_TIME) {
        for number in first..first + AT_A_TIME {
            run(host, Op::Acquire(lock(number)));
        }
        let start = Instant::now();
        while events.len() < AT_A_TIME {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{} losses were reported",
                events.len()
            );
            std::thread::sleep(Duration::from_millis(10));
            host.drain(&mut events);
            events.retain(|event| matches!(event, Event::Lost { is_forgotten: true, .. }));
        }
        events.clear();
    }
}

/// A single test, so that no other test in this process uses memory at the same time.
#[test]
fn changing_names_and_expired_leases_leak_no_memory() {
    let options = Options {
        url: Some("memory://".into()),
        ..Options::default()
    };
    let host = Host::open(options, Box::new(|| {})).unwrap();
    host.wait_connected().unwrap();
    let warm = 10_000;
    changing_names(&host, 0, warm);
    expiring_leases(&host, 0, warm);
    let before = resident();
    changing_names(&host, warm, count(1_000_000));
    check_flat(before, "changing names");
    expiring_leases(&host, warm, count(100_000));
    check_flat(before, "expired leases");
    host.close_blocking();
}
