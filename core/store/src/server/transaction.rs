//! `MULTI` to `EXEC`: requests that are kept, then executed in one go.

use super::request::Request;
use crate::commands::{self, Run};
use crate::reply::{Reply, StoreError};
use crate::store::{Store, unknown_command};
use crate::time::ServerTime;

/// The requests since `MULTI`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    requests: Vec<Request>,
    /// A request was refused: nothing will be executed.
    is_broken: bool,
}

impl Transaction {
    /// Keeps a request, or refuses it and with it the transaction.
    pub(super) fn queue(&mut self, request: Request) -> Reply {
        match check(&request) {
            Ok(()) => {
                self.requests.push(request);
                Reply::Status("QUEUED".into())
            }
            Err(error) => {
                self.is_broken = true;
                Reply::Error(error)
            }
        }
    }

    /// Executes everything with nothing in between.
    pub(super) fn execute(self, store: &mut Store, now: ServerTime) -> Reply {
        if self.is_broken {
            return Reply::Error(StoreError::parse(
                "EXECABORT Transaction discarded because of previous errors.",
            ));
        }
        let replies = self.requests.iter().map(|request| store.execute(request, now));
        Reply::Array(replies.collect())
    }
}

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
