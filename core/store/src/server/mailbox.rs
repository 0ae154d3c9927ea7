//! The messages that wait for one subscriber.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::connections::{Connections, MemoryShare};
use crate::limits::server::{ALL_MESSAGE_BYTES, MESSAGE_BYTES, MESSAGE_EXTRA};

/// A message: channel and payload.
pub(super) type Message = (Vec<u8>, Vec<u8>);

/// A queue of messages that publishers fill and the connection empties. Its size is limited, and so is the size of all
/// mailboxes together. A subscriber without room for a message is disconnected, because it would not notice a gap in
/// its messages.
pub(super) struct Mailbox {
    queue: Mutex<Queue>,
    has_changed: Notify,
}

struct Queue {
    messages: VecDeque<Message>,
    memory: MemoryShare,
    has_overflowed: bool,
}

impl Mailbox {
    pub(super) fn new(connections: &Connections) -> Self {
        Self {
            queue: Mutex::new(Queue {
                messages: VecDeque::new(),
                memory: MemoryShare::of(connections.message_memory()),
                has_overflowed: false,
            }),
            has_changed: Notify::new(),
        }
    }

    pub(super) fn push(&self, connections: &Connections, channel: &[u8], payload: &[u8]) {
        let mut queue = self.queue();
        if queue.has_overflowed {
            return;
        }
        let bytes = queue.memory.bytes() + memory_of(channel, payload);
        let all = connections.message_memory().load(Ordering::Relaxed) + memory_of(channel, payload);
        if bytes > MESSAGE_BYTES || all > ALL_MESSAGE_BYTES {
            queue.has_overflowed = true;
            queue.messages = VecDeque::new();
            queue.memory.set(0);
        } else {
            queue.messages.push_back((channel.to_vec(), payload.to_vec()));
            queue.memory.set(bytes);
        }
        self.has_changed.notify_one();
    }

    pub(super) fn pop(&self) -> Option<Message> {
        let mut queue = self.queue();
        let message = queue.messages.pop_front()?;
        let bytes = queue.memory.bytes() - memory_of(&message.0, &message.1);
        queue.memory.set(bytes);
        if bytes == 0 {
            queue.messages = VecDeque::new();
        }
        Some(message)
    }

    /// Returns whether there was no room for a message. From then on the mailbox stays empty.
    pub(super) fn has_overflowed(&self) -> bool {
        self.queue().has_overflowed
    }

    /// Waits for a message, or until there is no room for one.
    pub(super) async fn changed(&self) {
        self.has_changed.notified().await;
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn memory_of(channel: &[u8], payload: &[u8]) -> usize {
    channel.len() + payload.len() + MESSAGE_EXTRA
}
