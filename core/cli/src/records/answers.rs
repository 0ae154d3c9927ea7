//! Reads the servers' answers. Changes by other clients between two commands are no errors: a key can disappear, change
//! its owner, or move to another node.

use std::time::Duration;

use steadlock::admin::{CallError, Reply, Server};
use steadlock::{Error, Operation};

/// The words of a command.
pub(super) type Command = Vec<Vec<u8>>;

/// The number of commands that are sent at once.
const BATCH: usize = 1_000;

/// The result of a command about one key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Reply(Reply),
    /// The key holds a value of another type than the command is for.
    OtherType,
    /// Another node has the key, or has some of the keys of the command.
    Elsewhere,
    /// This user may not read the key, or lacks the command.
    Forbidden(CallError),
}

impl Answer {
    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Reply(Reply::Int(number)) => u64::try_from(*number).ok(),
            Self::Reply(reply) => text(reply)?.parse().ok(),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Reply(reply) => text(reply),
            _ => None,
        }
    }

    /// Reads the reply to PTTL: `None` if the key is gone or the answer is no such reply, `Some(None)` if the key has
    /// no TTL.
    pub(super) fn ttl(&self) -> Option<Option<Duration>> {
        match self {
            Self::Reply(Reply::Int(-1)) => Some(None),
            Self::Reply(Reply::Int(ms)) => Some(Some(Duration::from_millis(u64::try_from(*ms).ok()?))),
            _ => None,
        }
    }

    /// Reads members and scores. Some servers send them alternately, others in pairs.
    pub(super) fn scores(&self) -> Vec<(String, f64)> {
        let Self::Reply(Reply::Array(items)) = self else {
            return Vec::new();
        };
        let pair = |pair: &[Reply]| Some((text(pair.first()?)?, text(pair.get(1)?)?.parse().ok()?));
        match items.first() {
            Some(Reply::Array(_)) => items
                .iter()
                .filter_map(|item| match item {
                    Reply::Array(parts) => pair(parts),
                    _ => None,
                })
                .collect(),
            _ => items.chunks_exact(2).filter_map(pair).collect(),
        }
    }

    /// Reads texts. Each of them can be missing.
    pub(super) fn texts(&self) -> Vec<Option<String>> {
        match self {
            Self::Reply(Reply::Array(items)) => items.iter().map(text).collect(),
            _ => Vec::new(),
        }
    }

    /// Reads the reply to TIME, in µs.
    pub(super) fn time(&self) -> u64 {
        let texts = self.texts();
        let part = |place: usize| -> Option<u64> { texts.get(place)?.as_ref()?.parse().ok() };
        let (seconds, micros) = (part(0).unwrap_or(0), part(1).unwrap_or(0));
        seconds.saturating_mul(1_000_000).saturating_add(micros)
    }
}

/// Sends commands to a server, [`BATCH`] at a time. A refusal for which [`Answer`] has no variant is an error.
pub(super) async fn ask(server: &mut Server, commands: &[Command]) -> Result<Vec<Answer>, Error> {
    let mut answers = Vec::with_capacity(commands.len());
    for batch in commands.chunks(BATCH) {
        for answer in server.ask_all(batch).await? {
            answers.push(match answer {
                Ok(reply) => Answer::Reply(reply),
                Err(error) => to_answer(error, server)?,
            });
        }
    }
    Ok(answers)
}

/// Sends commands like [`ask`], to a node that may be importing a slot. Each command follows an `ASKING`, without which
/// such a node answers `MOVED`.
pub(super) async fn ask_with_asking(server: &mut Server, commands: &[Command]) -> Result<Vec<Answer>, Error> {
    let asking = || command(&[b"ASKING"]);
    let with_asking: Vec<Command> = commands
        .iter()
        .flat_map(|command| [asking(), command.clone()])
        .collect();
    let mut answers = ask(server, &with_asking).await?.into_iter();
    let mut command_answers = Vec::with_capacity(commands.len());
    while let (Some(_), Some(answer)) = (answers.next(), answers.next()) {
        command_answers.push(answer);
    }
    Ok(command_answers)
}

/// Returns the error for a command that the server refused.
pub(super) fn refusal_error(error: &CallError, server: &Server) -> Error {
    error.to_error(Operation::Inspect).with_node(server.address())
}

fn to_answer(error: CallError, server: &Server) -> Result<Answer, Error> {
    let CallError::Server { code, .. } = &error else {
        return Err(refusal_error(&error, server));
    };
    match code.as_str() {
        "WRONGTYPE" => Ok(Answer::OtherType),
        "MOVED" | "ASK" | "TRYAGAIN" => Ok(Answer::Elsewhere),
        "NOPERM" => Ok(Answer::Forbidden(error)),
        _ => Err(refusal_error(&error, server)),
    }
}

/// Returns a command of these words.
pub(super) fn command(parts: &[&[u8]]) -> Command {
    parts.iter().map(|part| part.to_vec()).collect()
}

pub(super) fn text(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Reply::Int(number) => Some(number.to_string()),
        Reply::Nil | Reply::Array(_) => None,
    }
}

/// Returns for how long the owner with this token has held the lock, if the token is a plausible time. A token is the
/// server's clock at the grant, unless that clock was behind the previous token.
pub(super) fn held_for(token: Option<u64>, now: u64) -> Option<Duration> {
    const LONGEST: u64 = 10 * 365 * 86_400 * 1_000_000;
    let held = now.checked_sub(token?)?;
    (held < LONGEST).then(|| Duration::from_micros(held))
}
