//! Frequent calls, such as to acquire and to release a lock, as C functions.
//!
//! A function that starts an operation returns the native part's number of the request, by which an
//! acquisition can be cancelled, or one of [`DROPPED`], [`NO_LOCK`] and [`PANICKED`]. `tag` is the
//! JVM's own number of the request; the event that ends the request repeats the tag. `context` is
//! the number by which the core recognizes an owner, and `within` the number of the held lease that
//! an acquisition re-enters. −1 and NaN stand for "none".

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use steadlock::host::{Acquire, LockRef, OnUnavailable, Op};

use crate::client::Client;
use crate::wire;

/// The handle belongs to no client, or its client was dropped.
const DROPPED: i64 = -1;
/// The bytes of a lock are malformed.
const NO_LOCK: i64 = -2;
/// The native part panicked. The state of the operation is unknown.
const PANICKED: i64 = -3;

/// Starts an acquisition. `on_unavailable` is an index into [`OnUnavailable::ALL`], or −1 for the
/// client's own policy. `renew` and `fencing` are 0 for "no".
///
/// # Safety
/// `lock` points to `length` bytes that stay unchanged during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn steadlock_acquire(
    client: u64,
    tag: u64,
    lock: *const u8,
    length: i32,
    context: i64,
    within: i64,
    wait_ms: f64,
    lease_ms: f64,
    renew: i32,
    max_hold_ms: f64,
    fencing: i32,
    on_unavailable: i32,
) -> i64 {
    // SAFETY: the caller meets the requirements of the section above.
    let lock = unsafe { decoded(lock, length) };
    start(client, |client| {
        let acquire = Acquire {
            lock: lock?,
            context: u64::try_from(context).ok(),
            within: u64::try_from(within).ok(),
            wait_ms: number(wait_ms),
            lease_ms: number(lease_ms),
            renew: renew != 0,
            max_hold_ms: number(max_hold_ms),
            no_fencing: fencing == 0,
            on_unavailable: policy(on_unavailable),
            ..Acquire::default()
        };
        Some(client.start(tag, Op::Acquire(acquire)))
    })
}

/// Starts to release a lease.
#[unsafe(no_mangle)]
pub extern "C" fn steadlock_release(client: u64, tag: u64, lease: u64) -> i64 {
    start(client, |client| Some(client.start(tag, Op::Release { lease })))
}

/// Starts to release the innermost lease of a lock that a context holds.
///
/// # Safety
/// `lock` points to `length` bytes that stay unchanged during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn steadlock_release_innermost(
    client: u64,
    tag: u64,
    lock: *const u8,
    length: i32,
    context: u64,
) -> i64 {
    // SAFETY: the caller meets the requirements of the section above.
    let lock = unsafe { decoded(lock, length) };
    start(client, |client| {
        let lock = lock?;
        Some(client.start(tag, Op::ReleaseInnermost { lock, context }))
    })
}

/// Starts to look up whether a context holds a lock: a local check, no server call.
///
/// # Safety
/// `lock` points to `length` bytes that stay unchanged during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn steadlock_held(client: u64, tag: u64, lock: *const u8, length: i32, context: u64) -> i64 {
    // SAFETY: the caller meets the requirements of the section above.
    let lock = unsafe { decoded(lock, length) };
    start(client, |client| {
        Some(client.start(tag, Op::Held { lock: lock?, context }))
    })
}

/// Waits for events and writes them into `buffer`. Returns the number of bytes written, 0 after
/// `timeout_ms` without an event or for an empty buffer, or −1 if the handle was dropped or the
/// native part panicked.
///
/// # Safety
/// `buffer` points to `capacity` bytes that no other code uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn steadlock_next(client: u64, timeout_ms: i64, buffer: *mut u8, capacity: i32) -> i32 {
    let length = usize::try_from(capacity).unwrap_or_default();
    if buffer.is_null() || length == 0 {
        return 0;
    }
    // SAFETY: the pointer is not null, and the caller meets the requirements of the section above.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or_default());
    let written = catch_unwind(AssertUnwindSafe(|| Client::get(client)?.next(timeout, buffer)));
    match written {
        Ok(Some(bytes)) => i32::try_from(bytes).unwrap_or(capacity),
        Ok(None) | Err(_) => -1,
    }
}

/// Returns how long the caller may rely on a lease if nothing renews it, in nanoseconds; 0 if the
/// lease is not valid or the handle was dropped. Reads the clock.
#[unsafe(no_mangle)]
pub extern "C" fn steadlock_remaining(client: u64, lease: u64) -> i64 {
    let remaining = catch_unwind(|| Client::get(client).map(|client| client.remaining(lease)));
    match remaining {
        Ok(Some(remaining)) => i64::try_from(remaining.as_nanos()).unwrap_or(i64::MAX),
        Ok(None) | Err(_) => 0,
    }
}

/// Runs `submit` on the client of a handle. Catches panics, which must not unwind into C.
fn start(client: u64, submit: impl FnOnce(&Client) -> Option<u64>) -> i64 {
    let request = catch_unwind(AssertUnwindSafe(|| Client::get(client).map(|client| submit(&client))));
    match request {
        Ok(Some(Some(request))) => i64::try_from(request).unwrap_or(PANICKED),
        Ok(Some(None)) => NO_LOCK,
        Ok(None) => DROPPED,
        Err(_) => PANICKED,
    }
}

/// Decodes a lock; `None` for bytes that are no lock.
///
/// # Safety
/// `bytes` points to `length` bytes that stay unchanged during the call.
unsafe fn decoded(bytes: *const u8, length: i32) -> Option<LockRef> {
    let length = usize::try_from(length).ok()?;
    if bytes.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null, and the caller meets the requirements of the section above.
    wire::lock(unsafe { std::slice::from_raw_parts(bytes, length) })
}

fn policy(index: i32) -> Option<OnUnavailable> {
    OnUnavailable::ALL.get(usize::try_from(index).ok()?).copied()
}

fn number(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}
