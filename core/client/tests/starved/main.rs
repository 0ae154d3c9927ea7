//! Clients in a process that has reached its limit of threads or files, or whose file descriptors were closed.
#![cfg(target_os = "linux")]
#![allow(unreachable_pub, reason = "what the modules of this binary share")]

mod hardship;
mod limits;
#[path = "../support/mod.rs"]
mod support;

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use limits::{
    Limited, ManyThreads, Unprivileged, address_space, check_open, close, close_at_once, descriptors, open_files,
    wait_for_ended_threads,
};
use rustix::process::Resource;
use steadlock::blocking::{Client, Lease};
use steadlock::{Builder, Error, ErrorKind, LostReason};
use support::Redis;

const SOON: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(9);
/// A number of bytes that is enough for the allocations of a call, and too little for a thread's stack.
const LITTLE_MEMORY: u64 = 1 << 20;

/// The environment variable that is set in the process that runs a single test.
const ALONE: &str = "STEADLOCK_TEST_ALONE";

/// Runs the scenario of this test in a separate process, because limits and descriptors belong to a process.
fn run_alone(test: &str, scenario: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return scenario();
    }
    let this = std::env::current_exe().expect("a path");
    let args = ["--exact", test, "--nocapture", "--test-threads=1"];
    let output = Command::new(this)
        .args(args)
        .env(ALONE, "1")
        .output()
        .expect("a process");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}: {text}",
        output.status
    );
}

/// Builds a client whose URL has the name `localhost` instead of an IP address.
fn by_name(server: &Redis) -> Builder {
    steadlock::Client::builder()
        .url(format!("redis://localhost:{}", server.port))
        .lease(LEASE)
        .command_timeout(Duration::from_secs(1))
}

fn cut(server: &mut redis::Connection) {
    for kind in ["normal", "pubsub"] {
        let cut: Result<u64, _> = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg(kind).query(server);
        assert!(cut.is_ok(), "{cut:?}");
    }
}

fn check_unavailable(result: Result<Option<Lease>, Error>) -> Error {
    let error = result.map(drop).expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    error
}

/// Asserts that each call fails with an error that names the resource which the process lacks.
fn check_error_names(client: &Client, what: &str) {
    for _ in 0..3 {
        let error = check_unavailable(client.lock("b").try_acquire());
        assert!(error.to_string().contains(what), "{error}");
    }
}

/// Repeats attempts until the lock is granted. Each error before that must be `Unavailable`.
fn wait_until_recovered(client: &Client, name: &str) {
    let start = Instant::now();
    loop {
        match client.lock(name).try_acquire() {
            Ok(Some(lease)) => {
                lease.release().expect("a release");
                return;
            }
            Ok(None) => assert!(start.elapsed() < SOON, "no recovery: another owner holds the lock"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert!(start.elapsed() < SOON, "no recovery: {error}");
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_resolves_its_servers_name_again_without_a_new_thread() {
    run_alone("a_client_resolves_its_servers_name_again_without_a_new_thread", || {
        let server = Redis::start();
        let mut connection = server.connection();
        let _unprivileged = Unprivileged::new();
        let client = by_name(&server).connect_blocking().unwrap();
        let held = client.lock("held").acquire().unwrap();
        let _limited = Limited::to(Resource::Nproc, 1);
        assert!(thread::Builder::new().spawn(|| ()).is_err(), "the limit does not hold");
        for _ in 0..5 {
            cut(&mut connection);
            wait_until_recovered(&client, "a");
        }
        assert!(held.is_valid());
        held.release().unwrap();
    });
}

#[test]
fn a_client_that_cannot_start_its_thread_says_so_and_starts_it_later() {
    run_alone(
        "a_client_that_cannot_start_its_thread_says_so_and_starts_it_later",
        || {
            let server = Redis::start();
            let _unprivileged = Unprivileged::new();
            let lazy = by_name(&server).lazy().connect_blocking().unwrap();
            let limited = Limited::to(Resource::Nproc, 1);
            let refused = by_name(&server).connect_blocking().map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
            check_error_names(&lazy, "threads");
            drop(limited);
            wait_until_recovered(&lazy, "a");
        },
    );
}

#[test]
fn without_memory_for_a_thread_a_new_client_says_so_and_running_clients_continue() {
    run_alone(
        "without_memory_for_a_thread_a_new_client_says_so_and_running_clients_continue",
        || {
            let server = Redis::start();
            let mut connection = server.connection();
            let client = by_name(&server).connect_blocking().unwrap();
            let lazy = by_name(&server).lazy().connect_blocking().unwrap();
            let held = client.lock("held").acquire().unwrap();
            let limited = Limited::to(Resource::As, address_space() + LITTLE_MEMORY);
            let _threads = ManyThreads::as_many_as_possible();
            cut(&mut connection);
            wait_until_recovered(&client, "a");
            wait_for_ended_threads(SOON);
            let _more_threads = ManyThreads::as_many_as_possible();
            check_error_names(&lazy, "threads");
            assert!(held.is_valid());
            drop(limited);
            wait_until_recovered(&lazy, "b");
            held.release().unwrap();
        },
    );
}

#[test]
fn a_name_that_no_thread_can_resolve_is_resolved_later() {
    run_alone("a_name_that_no_thread_can_resolve_is_resolved_later", || {
        let server = Redis::start();
        let _unprivileged = Unprivileged::new();
        let lazy = by_name(&server).lazy().connect_blocking().unwrap();
        // Two threads: this one and the engine's. The limit counts the threads of all processes with this user id.
        let limited = Limited::to(Resource::Nproc, 2);
        let error = check_unavailable(lazy.lock("a").try_acquire());
        assert!(error.to_string().contains("thread"), "{error}");
        drop(limited);
        wait_until_recovered(&lazy, "a");
    });
}

#[test]
fn without_a_free_descriptor_a_client_is_unavailable_until_there_is_one() {
    run_alone(
        "without_a_free_descriptor_a_client_is_unavailable_until_there_is_one",
        || {
            let server = Redis::start();
            let mut connection = server.connection();
            let client = by_name(&server).connect_blocking().unwrap();
            let lazy = by_name(&server).lazy().connect_blocking().unwrap();
            let held = client.lock("held").acquire().unwrap();
            let limited = Limited::to(Resource::Nofile, 3);
            cut(&mut connection);
            let start = Instant::now();
            while !client
                .lock("a")
                .try_acquire()
                .is_err_and(|error| error.to_string().contains("open files"))
            {
                assert!(start.elapsed() < SOON, "no error names the limit");
            }
            check_error_names(&lazy, "open files");
            drop(limited);
            wait_until_recovered(&client, "a");
            wait_until_recovered(&lazy, "b");
            assert!(held.is_valid());
            held.release().unwrap();
        },
    );
}

#[test]
fn a_client_whose_descriptors_were_closed_opens_others_and_keeps_its_leases() {
    run_alone(
        "a_client_whose_descriptors_were_closed_opens_others_and_keeps_its_leases",
        || {
            let server = Redis::start();
            let client = by_name(&server)
                .lease(Duration::from_secs(3))
                .connect_blocking()
                .unwrap();
            for calls in [0, 1, 300, 1_000] {
                // After enough consecutive calls, this thread drives the engine itself.
                for _ in 0..calls {
                    client.lock("quick").acquire().unwrap().release().unwrap();
                }
                let held = client.lock("held").acquire().unwrap();
                close(descriptors());
                let files = if calls == 1 { Vec::new() } else { open_files() };
                wait_until_recovered(&client, "a");
                thread::sleep(Duration::from_secs(4));
                assert!(held.is_valid(), "the lease is renewed");
                held.release().unwrap();
                check_open(files);
            }
        },
    );
}

/// tokio panics if the engine sets a timer after its descriptors were closed. No caller may notice that.
#[test]
fn descriptors_that_are_closed_while_clients_connect_end_none_of_them() {
    run_alone(
        "descriptors_that_are_closed_while_clients_connect_end_none_of_them",
        || {
            let server = Redis::start();
            for turn in 0..20 {
                let clients: Vec<Client> = (0..12)
                    .map(|_| by_name(&server).lazy().connect_blocking().unwrap())
                    .collect();
                thread::scope(|scope| {
                    let call = |client: &Client| client.lock("a").try_acquire().map(drop);
                    let calls: Vec<_> = clients.iter().map(|client| scope.spawn(move || call(client))).collect();
                    thread::sleep(Duration::from_micros(turn * 200));
                    close_at_once(descriptors());
                    for call in calls {
                        if let Err(error) = call.join().expect("no panic") {
                            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                            assert!(!error.to_string().contains("the client's engine failed"), "{error}");
                        }
                    }
                });
                wait_until_recovered(&clients[0], "a");
            }
        },
    );
}

#[test]
fn an_idle_client_notices_that_its_descriptors_were_closed() {
    run_alone("an_idle_client_notices_that_its_descriptors_were_closed", || {
        let server = Redis::start();
        let client = by_name(&server)
            .lease(Duration::from_secs(2))
            .connect_blocking()
            .unwrap();
        let held = client.lock("held").acquire().unwrap();
        close(descriptors());
        let files = open_files();
        assert_eq!(held.wait_lost(Duration::from_secs(6)), None);
        assert!(held.is_valid());
        check_open(files);
    });
}

#[test]
fn a_client_that_cannot_open_other_descriptors_fails_every_call_and_lease_at_once() {
    run_alone(
        "a_client_that_cannot_open_other_descriptors_fails_every_call_and_lease_at_once",
        || {
            let server = Redis::start();
            let client = by_name(&server).connect_blocking().unwrap();
            let held = client.lock("held").acquire().unwrap();
            let others = by_name(&server).connect_blocking().unwrap();
            let held_by_others = others.lock("others").acquire().unwrap();
            thread::scope(|scope| {
                let waiter = scope.spawn(|| client.lock("others").wait(SOON).acquire().map(drop));
                thread::sleep(Duration::from_millis(300));
                close(descriptors());
                let limited = Limited::to(Resource::Nofile, 3);
                assert_eq!(held.wait_lost(SOON), Some(LostReason::Closed));
                assert!(!held.is_valid());
                let error = waiter.join().expect("no panic").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                let start = Instant::now();
                for _ in 0..100 {
                    let error = check_unavailable(client.lock("a").try_acquire());
                    assert!(error.to_string().contains("descriptors"), "{error}");
                }
                assert!(start.elapsed() < Duration::from_secs(5), "not at once");
                drop(limited);
            });
            drop(held_by_others);
        },
    );
}

#[test]
fn a_client_of_the_embedded_store_has_no_descriptors_to_lose() {
    run_alone("a_client_of_the_embedded_store_has_no_descriptors_to_lose", || {
        let client = Client::connect("memory://").unwrap();
        let held = client.lock("held").acquire().unwrap();
        close(descriptors());
        let files = open_files();
        for _ in 0..300 {
            client.lock("a").acquire().unwrap().release().unwrap();
        }
        held.release().unwrap();
        check_open(files);
    });
}
