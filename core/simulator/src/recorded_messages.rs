//! The published messages that a malicious client has recorded.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::random::Random;

/// The number of messages that are kept. The malicious client publishes some of them again.
const MOST: usize = 32;

/// The last messages that were published.
#[derive(Debug, Default)]
pub(crate) struct RecordedMessages {
    messages: VecDeque<Message>,
}

/// The channel and the payload.
type Message = (Arc<[u8]>, Arc<[u8]>);

impl RecordedMessages {
    pub(crate) fn push(&mut self, channel: &Arc<[u8]>, payload: &Arc<[u8]>) {
        if self.messages.len() == MOST {
            self.messages.pop_front();
        }
        self.messages.push_back((Arc::clone(channel), Arc::clone(payload)));
    }

    /// Returns one of the messages. Draws no random number if there are none.
    pub(crate) fn pick(&self, random: &mut Random) -> Option<&Message> {
        match self.messages.len() {
            0 => None,
            count => self.messages.get(random.index(count)),
        }
    }
}
