//! Tests that callers do not notice when the thread that drives the engine changes between their calls.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test states what must hold")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadlock::blocking::Client;

/// After this many calls, a thread that is the only caller drives the engine.
const QUICK_CALLS: usize = 100;

fn lock_and_unlock(client: &Client, name: &str, times: usize) {
    let lock = client.lock(name);
    for _ in 0..times {
        lock.acquire().unwrap().release().unwrap();
    }
}

#[test]
fn one_thread_then_many_then_one_again_can_drive() {
    let client = Client::connect("memory://").unwrap();
    for _ in 0..20 {
        lock_and_unlock(&client, "a", QUICK_CALLS);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| lock_and_unlock(&client, "a", QUICK_CALLS));
            }
        });
    }
    client.close();
}

#[test]
fn a_call_from_inside_a_runtime_is_answered_after_a_thread_drove_the_engine() {
    let client = Client::connect("memory://").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for _ in 0..20 {
        lock_and_unlock(&client, "a", QUICK_CALLS);
        runtime.block_on(async { lock_and_unlock(&client, "a", 3) });
    }
    client.close();
}

#[test]
fn a_parked_waiter_is_granted_while_another_thread_drives() {
    let client = Client::connect("memory://").unwrap();
    let counter = AtomicU64::new(0);
    let held = client.lock("held").acquire().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let lease = client.lock("held").wait(Duration::from_secs(30)).acquire().unwrap();
            counter.store(1, Ordering::SeqCst);
            lease.release().unwrap();
        });
        lock_and_unlock(&client, "other", QUICK_CALLS);
        held.release().unwrap();
        while counter.load(Ordering::SeqCst) == 0 && !waiter.is_finished() {
            lock_and_unlock(&client, "other", 10);
        }
    });
    assert_eq!(counter.load(Ordering::SeqCst), 1);
    client.close();
}

#[test]
fn the_watchdog_renews_while_callers_drive() {
    let client = Client::builder()
        .url("memory://")
        .lease(Duration::from_secs(3))
        .connect_blocking()
        .unwrap();
    let lease = client.lock("renewed").acquire().unwrap();
    let (mut before, mut renewals) = (lease.remaining(), 0);
    while renewals < 2 {
        lock_and_unlock(&client, "other", 10);
        assert!(lease.is_valid());
        let now = lease.remaining();
        // Only a renewal increases the remaining time.
        renewals += u32::from(now > before);
        before = now;
    }
    lease.release().unwrap();
    client.close();
}
