//! `MULTI` to `EXEC`: requests that are queued, then executed without any other in between.

use steadlock_resp::commands::Request;

use crate::commands::{self, Run};
use crate::limits::server::{QUEUED_BYTES, QUEUED_REQUESTS};
use crate::reply::{Reply, StoreError};
use crate::store::{Store, unknown_command};
use crate::time::ServerTime;

/// The requests since `MULTI`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    requests: Vec<Request>,
    bytes: usize,
    /// Whether a request was refused. If so, `EXEC` executes nothing.
    is_broken: bool,
}

impl Transaction {
    /// Queues a request. If the request is refused, the whole transaction fails.
    pub(super) fn queue(&mut self, request: Request) -> Reply {
        let bytes = request.iter().map(|word| word.len() + WORD_EXTRA).sum::<usize>();
        match check(&request).and_then(|()| self.check_limits(bytes)) {
            Ok(()) => {
                self.bytes += bytes;
                self.requests.push(request);
                Reply::Status("QUEUED".into())
            }
            Err(error) => {
                self.is_broken = true;
                Reply::Error(error)
            }
        }
    }

    /// Returns the memory of the requests.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn check_limits(&self, bytes: usize) -> Result<(), StoreError> {
        if self.requests.len() >= QUEUED_REQUESTS || self.bytes + bytes > QUEUED_BYTES {
            return Err(StoreError::err(
                "this transaction is too large for this development server",
            ));
        }
        Ok(())
    }

    /// Executes all requests without any other in between.
    pub(super) fn execute(self, store: &mut Store, now: ServerTime) -> Reply {
        if self.is_broken {
            return Reply::Error(StoreError::parse(
                "EXECABORT Transaction discarded because of previous errors.",
            ));
        }
        // All requests together are one piece of work. Once it has taken too long, or its replies are too large, the
        // rest is refused.
        let mut left = store.limits().reply_bytes;
        let replies = self.requests.iter().map(|request| {
            if store.is_over_time() {
                return Reply::Error(StoreError::too_slow());
            }
            if left == 0 {
                return Reply::Error(StoreError::reply_too_large());
            }
            let reply = store.execute(request, now);
            left = left.saturating_sub(reply.memory());
            reply
        });
        Reply::Array(replies.collect())
    }
}

/// The memory that a word takes beside its content.
const WORD_EXTRA: usize = 48;

fn check(request: &Request) -> Result<(), StoreError> {
    let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    let Some(command) = words.first().and_then(|name| commands::find(name)) else {
        return Err(unknown_command(&words));
    };
    if !command.accepts(words.len()) {
        return Err(StoreError::arity(command.name));
    }
    match command.run {
        Run::Connection => Err(StoreError::err("Command not allowed inside a transaction")),
        Run::Data(_) | Run::Script(_) => Ok(()),
    }
}
