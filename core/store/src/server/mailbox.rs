//! The messages that wait for one subscriber.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::connections::{Connections, MemoryShare};
use crate::limits::server::{ALL_MESSAGE_BYTES, MESSAGE_BYTES, MESSAGE_EXTRA};

/// A message: channel and payload.
pub(super) type Message = (Vec<u8>, Vec<u8>);

/// A queue of messages that publishers fill and the connection empties. Its size is limited. A subscriber that does not
/// keep up is disconnected, because it would not notice a gap in its messages.
pub(super) struct Mailbox {
    waiting: Mutex<Waiting>,
    has_changed: Notify,
}

struct Waiting {
    messages: VecDeque<Message>,
    held: MemoryShare,
    is_flooded: bool,
}

impl Mailbox {
    pub(super) fn new(connections: &Connections) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                messages: VecDeque::new(),
                held: MemoryShare::of(connections.messages()),
                is_flooded: false,
            }),
            has_changed: Notify::new(),
        }
    }

    pub(super) fn push(&self, connections: &Connections, channel: &[u8], payload: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.is_flooded {
            return;
        }
        let bytes = waiting.held.bytes() + memory_of(channel, payload);
        let all = connections.messages().load(Ordering::Relaxed) + memory_of(channel, payload);
        if bytes > MESSAGE_BYTES || all > ALL_MESSAGE_BYTES {
            waiting.is_flooded = true;
            waiting.messages = VecDeque::new();
            waiting.held.set(0);
        } else {
            waiting.messages.push_back((channel.to_vec(), payload.to_vec()));
            waiting.held.set(bytes);
        }
        self.has_changed.notify_one();
    }

    pub(super) fn pop(&self) -> Option<Message> {
        let mut waiting = self.waiting();
        let message = waiting.messages.pop_front()?;
        let bytes = waiting.held.bytes() - memory_of(&message.0, &message.1);
        waiting.held.set(bytes);
        if bytes == 0 {
            waiting.messages = VecDeque::new();
        }
        Some(message)
    }

    /// Returns whether messages came faster than the client read them.
    pub(super) fn is_flooded(&self) -> bool {
        self.waiting().is_flooded
    }

    /// Waits for a message, or until there are too many.
    pub(super) async fn changed(&self) {
        self.has_changed.notified().await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn memory_of(channel: &[u8], payload: &[u8]) -> usize {
    channel.len() + payload.len() + MESSAGE_EXTRA
}
