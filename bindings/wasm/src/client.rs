//! The class `NativeClient`: a client and its engine, which JavaScript runs.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use steadlock::host::{
    Acquire, CallId, Driven, Error, ErrorKind, Host, Lane, NodeId, Op, Operation, ServerAddress, clock_micros,
};
use steadlock_javascript::Client;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::failure::{failure, holder};
use crate::lock_ref::lock_ref;
use crate::observation::observation;
use crate::options::{options, policy};
use crate::transmit::{refusal, reply, transmit, unknown_outcome};

/// A client. JavaScript must call [`turn`](Self::turn) after every call that submits an operation or reports an event
/// of a server.
#[wasm_bindgen]
pub struct NativeClient {
    client: Client,
    engine: RefCell<Driven>,
    has_events: Arc<AtomicBool>,
}

/// Checks the options. Returns a `NativeClient`, or a `NativeFailure`.
#[wasm_bindgen]
pub fn open(native_options: &JsValue) -> JsValue {
    let has_events = Arc::new(AtomicBool::new(false));
    let wake_flag = Arc::clone(&has_events);
    let wake = move || wake_flag.store(true, Ordering::Relaxed);
    match Host::open_driven(options(native_options), Box::new(wake)) {
        Ok((host, engine)) => NativeClient {
            client: Client::new(host),
            engine: RefCell::new(engine),
            has_events,
        }
        .into(),
        Err(error) => failure(&error),
    }
}

/// The requests of JavaScript, the same as in the binding for Node.
#[wasm_bindgen]
impl NativeClient {
    /// Requests a lock. Returns the request number.
    #[expect(
        clippy::too_many_arguments,
        reason = "one call per acquire is the cheapest way over the border"
    )]
    pub fn acquire(
        &self,
        lock: &JsValue,
        wait_ms: Option<f64>,
        lease_ms: Option<f64>,
        renew: bool,
        max_hold_ms: Option<f64>,
        within: Option<f64>,
        fencing: bool,
        on_unavailable: Option<String>,
        remaining_ms: Option<f64>,
    ) -> f64 {
        self.client.submit(Op::Acquire(Acquire {
            lock: lock_ref(lock),
            within: within.map(|lease| lease as u64),
            wait_ms,
            lease_ms,
            renew,
            max_hold_ms,
            remaining_ms,
            no_fencing: !fencing,
            on_unavailable: policy(on_unavailable),
            ..Acquire::default()
        }))
    }

    /// Releases a lease. Returns the request number. The lease counts as released at once.
    pub fn release(&self, lease: f64) -> f64 {
        self.client.release(lease)
    }

    /// Forgets a lost lease, because JavaScript has no object of it any more.
    pub fn forget(&self, lease: f64) {
        self.client.forget(lease);
    }

    /// Extends a lease. Returns the request number.
    pub fn extend(&self, lease: f64, by_ms: Option<f64>) -> f64 {
        self.client.submit(Op::Extend {
            lease: lease as u64,
            by_ms,
        })
    }

    /// Asks the server for the holder of a lock. Returns the request number.
    pub fn inspect(&self, lock: &JsValue) -> f64 {
        self.client.submit(Op::Inspect { lock: lock_ref(lock) })
    }

    /// Removes the records of all holders of a lock. Returns the request number.
    #[wasm_bindgen(js_name = forceRelease)]
    pub fn force_release(&self, lock: &JsValue) -> f64 {
        self.client.submit(Op::ForceRelease { lock: lock_ref(lock) })
    }

    /// Changes a semaphore's limit to that of `lock`. Returns the request number.
    #[wasm_bindgen(js_name = setLimit)]
    pub fn set_limit(&self, lock: &JsValue) -> f64 {
        self.client.submit(Op::SetLimit { lock: lock_ref(lock) })
    }

    /// Returns the metrics in Prometheus' text format, or a `NativeFailure`.
    pub fn metrics(&self) -> JsValue {
        match self.client.host().metrics() {
            Ok(text) => text.into(),
            Err(error) => failure(&error),
        }
    }

    /// Returns the label for the group of a lock of this name in `metrics`, or a `NativeFailure`.
    #[wasm_bindgen(js_name = metricsGroup)]
    pub fn metrics_group(&self, name: &str) -> JsValue {
        match self.client.host().metrics_group(name) {
            Ok(group) => JsValue::from(&*group),
            Err(error) => failure(&error),
        }
    }

    /// Closes the client. Returns the request number.
    pub fn close(&self) -> f64 {
        self.client.submit(Op::Close)
    }

    /// Cancels a request whose caller does not wait any more.
    pub fn cancel(&self, request: f64) {
        self.client.host().cancel(request as u64);
    }

    /// Returns the time that is left of a lease, in milliseconds; 0 if the lease is not held.
    #[wasm_bindgen(js_name = remainingMs)]
    pub fn remaining_ms(&self, lease: f64) -> f64 {
        self.client.remaining_ms(lease)
    }

    /// Whether a lease is valid at this moment.
    #[wasm_bindgen(js_name = isValid)]
    pub fn is_valid(&self, lease: f64) -> bool {
        self.client.is_valid(lease)
    }

    /// Returns the index of the reason for the loss of a lease; −1 if it is not lost.
    #[wasm_bindgen(js_name = lostReason)]
    pub fn lost_reason(&self, lease: f64) -> f64 {
        self.client.lost_reason(lease)
    }

    /// Writes queued events into `buffer` as rows, and returns their number. If the buffer is full, more events can be
    /// left: drain again.
    pub fn drain(&self, buffer: &mut [f64]) -> u32 {
        self.client.drain(buffer)
    }

    /// Returns the error of the next refused or failed row.
    #[wasm_bindgen(js_name = nextFailure)]
    pub fn next_failure(&self) -> JsValue {
        let error = self.client.next_failure();
        error.map_or(JsValue::UNDEFINED, |error| failure(&error))
    }

    /// Returns the holder for the next state row of a held lock.
    #[wasm_bindgen(js_name = nextHolder)]
    pub fn next_holder(&self) -> JsValue {
        let next = self.client.next_holder();
        next.map_or(JsValue::UNDEFINED, |next| holder(&next))
    }

    /// Returns the observation of the next observed row. Builds it only if `is_wanted`, because texts take time.
    #[wasm_bindgen(js_name = nextObservation)]
    pub fn next_observation(&self, is_wanted: bool) -> JsValue {
        let line = self.client.next_observation().filter(|_| is_wanted);
        line.map_or(JsValue::UNDEFINED, |line| observation(&line))
    }
}

/// The calls by which JavaScript runs the engine.
#[wasm_bindgen]
impl NativeClient {
    /// Runs one turn of the engine, which does all pending work. Returns whether the engine has ended.
    pub fn turn(&self) -> bool {
        // Nothing needs a wake-up, because JavaScript runs a turn after each call that leaves work.
        self.engine.borrow_mut().turn(Waker::noop()).is_ready()
    }

    /// Returns whether events arrived since the last call.
    #[wasm_bindgen(js_name = hasEvents)]
    pub fn has_events(&self) -> bool {
        self.has_events.swap(false, Ordering::Relaxed)
    }

    /// Returns after how many milliseconds the engine needs its next turn, if no event comes before; `None` if it needs
    /// none.
    #[wasm_bindgen(js_name = dueInMs)]
    pub fn due_in_ms(&self) -> Option<f64> {
        let due = self.engine.borrow_mut().due()?;
        Some(due.saturating_sub(clock_micros()) as f64 / 1e3)
    }

    /// Returns how long connecting may take, in milliseconds.
    #[wasm_bindgen(js_name = connectTimeoutMs)]
    pub fn connect_timeout_ms(&self) -> f64 {
        self.engine.borrow().connect_timeout().as_secs_f64() * 1e3
    }

    /// Returns the next item to send, a `Transmit` of `packages/web/src/servers.ts`; `undefined` if there is none.
    /// `sharded` lists the nodes that also publish on a cluster's sharded channels.
    #[wasm_bindgen(js_name = nextTransmit)]
    pub fn next_transmit(&self, sharded: &[u16]) -> JsValue {
        let item = self.engine.borrow_mut().poll_transmit();
        item.map_or(JsValue::UNDEFINED, |item| transmit(&item, sharded))
    }

    /// Reports that a server can be called.
    pub fn opened(&self, node: u16) {
        for lane in LANES {
            self.engine.borrow_mut().lane_opened(NodeId(node), lane);
        }
    }

    /// Reports that a server could not be called.
    pub fn closed(&self, node: u16, cause: &str) {
        for lane in LANES {
            self.engine.borrow_mut().lane_closed(NodeId(node), lane, cause);
        }
    }

    /// Reports that JavaScript can subscribe to the channels of a server.
    #[wasm_bindgen(js_name = subscriptionsOpened)]
    pub fn subscriptions_opened(&self, node: u16) {
        self.engine.borrow_mut().subscriptions_opened(NodeId(node));
    }

    /// Reports that connecting to a server failed: for a reason that will not pass (`is_permanent`), or because it took
    /// longer than connecting may take.
    #[wasm_bindgen(js_name = giveUp)]
    pub fn give_up(&self, node: u16, is_permanent: bool, cause: &str) {
        let kind = if is_permanent {
            ErrorKind::Misconfigured
        } else {
            ErrorKind::Unavailable
        };
        let error = Error::new(kind, Operation::Connect, "").with_cause(cause);
        let mut engine = self.engine.borrow_mut();
        let error = match engine.servers().get(usize::from(node)).map(|server| &server.address) {
            Some(ServerAddress::Host(name)) => error.with_node(steadlock::host::shown(name)),
            _ => error,
        };
        engine.give_up(NodeId(node), error);
    }

    /// Reports the reply to a call.
    pub fn replied(&self, node: u16, call: f64, value: &JsValue) {
        let unreadable = || refusal("ERR the client answered with what is no reply of a script");
        let reply = reply(value).ok_or_else(unreadable);
        self.engine
            .borrow_mut()
            .replied(NodeId(node), CallId::from_u64(call as u64), reply);
    }

    /// Reports that a call has no reply: the server refused it with this text (`is_refusal`), or its outcome is not
    /// known.
    pub fn failed(&self, node: u16, call: f64, is_refusal: bool, text: &str) {
        let error = if is_refusal {
            refusal(text)
        } else {
            unknown_outcome(text)
        };
        self.engine
            .borrow_mut()
            .replied(NodeId(node), CallId::from_u64(call as u64), Err(error));
    }

    /// Reports that the server confirmed a subscription.
    pub fn subscribed(&self, node: u16, channel: &str) {
        self.engine.borrow_mut().subscribed(NodeId(node), channel.as_bytes());
    }

    /// Reports a message on a channel.
    #[wasm_bindgen(js_name = messageReceived)]
    pub fn message_received(&self, node: u16, channel: &str, message: &str) {
        self.engine
            .borrow_mut()
            .message_received(NodeId(node), channel.as_bytes(), message.as_bytes().to_vec());
    }
}

/// The program's Redis client of a server serves both lanes: the one for calls and the one for renewals.
const LANES: [Lane; 2] = [Lane::Renewal, Lane::Command];
