//! Sends one command to one server, and turns the answer into a fact.

use std::collections::HashMap;

use steadlock::Error;
use steadlock::admin::{CallError, Reply, Server};

use crate::doctor::facts::Fact;

/// Returns the answer to a command, or the reason why there is none.
pub(super) async fn ask(server: &mut Server, command: &[&str]) -> Fact<Reply> {
    match server.ask(command).await {
        Ok(answer) => fact(answer, command),
        Err(error) => Fact::Unknown(no_answer_reason(&error)),
    }
}

/// Turns an answer or a refusal into a fact.
pub(super) fn fact(answer: Result<Reply, CallError>, command: &[&str]) -> Fact<Reply> {
    match answer {
        Ok(reply) => Fact::Known(reply),
        Err(error) => {
            // The reason names the command alone, without a setting or a key, so that equal reasons can be merged.
            let name = command.iter().take(if command[0] == "CONFIG" { 2 } else { 1 });
            let name: Vec<&str> = name.copied().collect();
            let code = match error {
                CallError::Server { code, .. } => code,
                CallError::Disconnected(_) => "no answer".into(),
            };
            Fact::Unknown(format!("{} is refused ({code})", name.join(" ")))
        }
    }
}

/// Returns the reason why a server did not answer.
pub(super) fn no_answer_reason(error: &Error) -> String {
    error.cause().unwrap_or("it does not answer").into()
}

pub(super) fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

pub(super) fn number(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Int(number) => Some(*number),
        other => text(other)?.parse().ok(),
    }
}

/// Reads a reply of alternating keys and values.
pub(super) fn map(reply: &Reply) -> HashMap<String, String> {
    let Reply::Array(items) = reply else {
        return HashMap::new();
    };
    let pairs = items.chunks_exact(2);
    let read = |pair: &[Reply]| Some((text(&pair[0])?.to_owned(), shown(&pair[1])?));
    pairs.filter_map(read).collect()
}

fn shown(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Int(number) => Some(number.to_string()),
        other => text(other).map(Into::into),
    }
}
