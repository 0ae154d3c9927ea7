//! `memory://`: the embedded store, which runs on the engine's thread.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use steadlock_protocol::{Call, CallError, CallId, Error, ErrorKind, Instant, Lane, Operation, Reply, Transmit};
use steadlock_store::{Embedded, Subscriber};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{NODE, Transport, TransportEvent};
use crate::process::Process;

pub(super) struct Memory {
    store: Embedded,
    subscriber: Subscriber,
    messages: UnboundedReceiver<(Arc<[u8]>, Vec<u8>)>,
    is_connected: bool,
    waiting: Vec<Transmit>,
    /// The replies and confirmations of the store since the last poll.
    events: Vec<TransportEvent>,
}

impl Memory {
    /// Opens the store of this name or, for `None`, a store of its own. Returns `Misconfigured` if a process from which
    /// this one was forked uses the named store. In this process the name would lead to another store, which excludes
    /// none of that process's callers.
    pub(super) fn open(name: Option<&str>) -> Result<Self, Error> {
        let store = match name {
            Some(name) => {
                let key = |process: Process| format!("{name}@{process}");
                if Process::ancestors()
                    .into_iter()
                    .any(|parent| Embedded::is_in_use(&key(parent)))
                {
                    return Err(another_process(name));
                }
                Embedded::named(&key(Process::current()))
            }
            None => Embedded::new(),
        };
        let (sender, messages) = unbounded_channel();
        let subscriber = store.connect(Box::new(move |channel, payload| {
            // Fails only if the client is gone.
            let _ = sender.send((channel.into(), payload.to_vec()));
        }));
        Ok(Self {
            store,
            subscriber,
            messages,
            is_connected: false,
            waiting: Vec::new(),
            events: Vec::new(),
        })
    }

    fn run(&self, call: &Call) -> Result<Reply, CallError> {
        self.store
            .run_script(call.script, &call.keys, &call.args)
            .map(Reply::from)
            .map_err(CallError::from)
    }
}

fn another_process(name: &str) -> Error {
    let message = format!(
        "the store of memory://{name} is in the memory of the process that this one is a fork of, and excludes nobody \
         here; use a server, as `steadlock serve` is one, or first connect to it after the fork"
    );
    Error::new(ErrorKind::Misconfigured, Operation::Connect, message)
}

impl Transport for Memory {
    fn transmit(&mut self, item: Transmit) {
        self.waiting.push(item);
    }

    fn flush(&mut self, _now: Instant, sent: &mut dyn FnMut(CallId)) {
        for item in mem::take(&mut self.waiting) {
            match item {
                Transmit::Call(call) => {
                    sent(call.id);
                    let result = self.run(&call);
                    self.events.push(TransportEvent::Reply { call: call.id, result });
                }
                Transmit::Subscribe { channel, .. } => {
                    self.subscriber.subscribe(&channel);
                    self.events.push(TransportEvent::Subscribed { node: NODE, channel });
                }
                Transmit::Unsubscribe { channel, .. } => self.subscriber.unsubscribe(&channel),
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>, _now: Instant, events: &mut Vec<TransportEvent>) {
        if !mem::replace(&mut self.is_connected, true) {
            events.push(TransportEvent::LaneOpened {
                node: NODE,
                lane: Lane::Renewal,
            });
            events.push(TransportEvent::LaneOpened {
                node: NODE,
                lane: Lane::Command,
            });
            events.push(TransportEvent::Ready);
        }
        events.append(&mut self.events);
        while let Poll::Ready(Some((channel, payload))) = self.messages.poll_recv(context) {
            events.push(TransportEvent::Message {
                node: NODE,
                channel,
                payload,
            });
        }
    }

    fn restart(&mut self, _now: Instant, _events: &mut Vec<TransportEvent>) -> bool {
        true
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn every_lane_is_open(&self) -> bool {
        true
    }
}
