//! A session as WebAssembly, driven by `session.test.mjs`. The interface has only numbers and two buffers, so it needs
//! no binding generator.
//!
//! The host writes a text at the address that `input` returns and calls a function. Then it calls `poll` until that
//! returns 0. Each other result is the length of a JSON text at the address that `output` returns. Times are in
//! microseconds.

#![warn(clippy::too_many_lines)]

use std::cell::RefCell;
use std::time::Duration;

use steadlock_protocol::{
    AcquireRequest, CallId, ClientId, Config, Event, Instant, Kind, LeaseId, LeaseTerms, LockName, NodeId,
    OnUnavailable, Outcome, Reply, Session, Transmit,
};

struct Driver {
    session: Session,
    lease: Option<LeaseId>,
}

thread_local! {
    static DRIVER: RefCell<Option<Driver>> = const { RefCell::new(None) };
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Returns the address of a buffer for `length` bytes from the host.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        input.resize(length, 0);
        input.as_mut_ptr()
    })
}

/// Returns the address of the last text for the host.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}

/// Starts a connected session. `seed` is randomness of the host.
#[unsafe(no_mangle)]
pub extern "C" fn open(seed: u64, now: f64) {
    let mut state = seed;
    let mut entropy = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.rotate_left(32)
    };
    let config = Config::new(ClientId::random(&mut entropy));
    let mut session = Session::new(config, Box::new(entropy));
    session.on_connected(NodeId::default(), at(now));
    DRIVER.set(Some(Driver { session, lease: None }));
}

/// Makes a single attempt to acquire the lock whose name is the input.
#[unsafe(no_mangle)]
pub extern "C" fn acquire(now: f64) {
    let name = LockName::parse(&text_of_input()).expect("the host writes a valid name");
    let request = AcquireRequest {
        kind: Kind::Lock,
        name,
        context: None,
        within: None,
        wait: Some(Duration::ZERO),
        lease: LeaseTerms::CLIENT,
        max_hold: None,
        fencing: true,
        on_unavailable: OnUnavailable::Fail,
        blocked: Vec::new(),
        run: None,
    };
    with_driver(|driver| {
        driver.session.acquire(request, at(now));
    });
}

/// Releases the lock.
#[unsafe(no_mangle)]
pub extern "C" fn release(now: f64) {
    with_driver(|driver| {
        let lease = driver.lease.expect("the host releases what was granted");
        driver.session.release(lease, at(now));
    });
}

/// Reports that the host is about to send this call.
#[unsafe(no_mangle)]
pub extern "C" fn sent(call: u64, now: f64) {
    with_driver(|driver| driver.session.on_sent(CallId::from_u64(call), at(now)));
}

/// Reports the reply to a call. It is an array with one element on each line of the input: `i` and a number, or `b` and
/// bytes.
#[unsafe(no_mangle)]
pub extern "C" fn reply(call: u64, now: f64) {
    let elements = text_of_input()
        .lines()
        .map(|line| match line.split_at(1) {
            ("i", number) => Reply::Int(number.parse().expect("the host writes a number")),
            (_, bytes) => Reply::Bytes(bytes.as_bytes().to_vec()),
        })
        .collect();
    with_driver(|driver| {
        driver
            .session
            .on_reply(CallId::from_u64(call), Ok(Reply::Array(elements)), at(now));
    });
}

/// Writes the next call or event as JSON into the output. Returns its length, or 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn poll() -> usize {
    let text = with_driver(|driver| {
        let transmit = driver
            .session
            .poll_transmit()
            .map(|transmit| describe_transmit(&transmit));
        transmit.or_else(|| driver.session.poll_event().map(|event| driver.describe_event(&event)))
    });
    OUTPUT.with_borrow_mut(|output| {
        *output = text.unwrap_or_default();
        output.len()
    })
}

impl Driver {
    fn describe_event(&mut self, event: &Event) -> String {
        match event {
            Event::Completed {
                outcome: Outcome::Granted(grant),
                ..
            } => {
                self.lease = Some(grant.lease);
                let token = grant.token.expect("fencing is on");
                format!(r#"{{"event": "granted", "token": "{token}"}}"#)
            }
            Event::Completed {
                outcome: Outcome::Released(outcome),
                ..
            } => {
                format!(r#"{{"event": "released", "outcome": "{outcome:?}"}}"#)
            }
            other => format!(r#"{{"event": "other", "text": {:?}}}"#, format!("{other:?}")),
        }
    }
}

fn describe_transmit(transmit: &Transmit) -> String {
    let list = |texts: &[std::sync::Arc<[u8]>]| {
        let quoted: Vec<_> = texts
            .iter()
            .map(|text| format!("{:?}", String::from_utf8_lossy(text)))
            .collect();
        quoted.join(", ")
    };
    match transmit {
        Transmit::Call(call) => format!(
            r#"{{"call": "{}", "file": "{}", "sha1": "{}", "keys": [{}], "args": [{}]}}"#,
            call.id.get(),
            call.script.file(),
            call.script.sha1(),
            list(&call.keys),
            list(&call.args),
        ),
        Transmit::Subscribe { channel, .. } => format!(r#"{{"subscribe": {:?}}}"#, String::from_utf8_lossy(channel)),
        Transmit::Unsubscribe { channel, .. } => {
            format!(r#"{{"unsubscribe": {:?}}}"#, String::from_utf8_lossy(channel))
        }
    }
}

fn with_driver<R>(work: impl FnOnce(&mut Driver) -> R) -> R {
    DRIVER.with_borrow_mut(|driver| work(driver.as_mut().expect("the host calls open first")))
}

fn text_of_input() -> String {
    INPUT.with_borrow(|input| String::from_utf8_lossy(input).into_owned())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "microseconds of a process"
)]
fn at(now: f64) -> Instant {
    Instant::from_micros(now as u64)
}
