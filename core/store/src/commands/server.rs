//! Commands about the server itself, and about messages.

use super::args::{int, is};
use crate::data::Data;
use crate::info;
use crate::reply::{EXCERPT_BYTES, Reply, StoreError, excerpt};

type Outcome = Result<Reply, StoreError>;

pub(super) fn ping(_data: &mut Data, args: &[&[u8]]) -> Outcome {
    match args[1..] {
        [] => Ok(Reply::Status("PONG".into())),
        [text] => Ok(Reply::bytes(text)),
        _ => Err(StoreError::arity("ping")),
    }
}

pub(super) fn echo(_data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::bytes(args[1]))
}

pub(super) fn time(data: &mut Data, _args: &[&[u8]]) -> Outcome {
    let micros = data.now().as_micros();
    Ok(Reply::Array(vec![
        Reply::bytes((micros / 1_000_000).to_string()),
        Reply::bytes((micros % 1_000_000).to_string()),
    ]))
}

/// Accepts only database 0. There is no other.
pub(super) fn select(_data: &mut Data, args: &[&[u8]]) -> Outcome {
    match int(args[1])? {
        0 => Ok(Reply::OK),
        _ => Err(StoreError::err("DB index is out of range")),
    }
}

pub(super) fn role(_data: &mut Data, _args: &[&[u8]]) -> Outcome {
    Ok(Reply::Array(vec![
        Reply::bytes("master"),
        Reply::Int(0),
        Reply::Array(Vec::new()),
    ]))
}

pub(super) fn info(data: &mut Data, args: &[&[u8]]) -> Outcome {
    Ok(Reply::bytes(info::text(data, &args[1..])))
}

/// Returns just enough for interactive clients to start.
pub(super) fn command(data: &mut Data, args: &[&[u8]]) -> Outcome {
    match args[1..] {
        [] => Ok(Reply::Array(Vec::new())),
        [subcommand, ..] if is(subcommand, "docs") => Ok(Reply::Map(Vec::new())),
        [subcommand, ..] if is(subcommand, "info") || is(subcommand, "list") => Ok(Reply::Array(Vec::new())),
        [subcommand] if is(subcommand, "count") => Ok(Reply::count(data.counts().commands())),
        [subcommand, ..] => Err(unknown_subcommand("COMMAND", subcommand)),
    }
}

/// `GET` finds no setting, and `SET` accepts none. Only `RESETSTAT` has an effect: it resets the counters of `INFO`.
pub(super) fn config(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let subcommand = args[1];
    if is(subcommand, "get") {
        if args.len() < 3 {
            return Err(StoreError::arity("config|get"));
        }
        return Ok(Reply::Map(Vec::new()));
    }
    if is(subcommand, "resetstat") {
        data.counts_mut().reset();
        return Ok(Reply::OK);
    }
    if is(subcommand, "set") {
        let excerpt = excerpt(args.get(2).copied().unwrap_or_default(), EXCERPT_BYTES);
        return Err(StoreError::err(format!(
            "CONFIG SET failed - '{excerpt}' cannot be set on this development server"
        )));
    }
    Err(unknown_subcommand("CONFIG", subcommand))
}

pub(super) fn publish(data: &mut Data, args: &[&[u8]]) -> Outcome {
    publish_to(data, args, false)
}

pub(super) fn spublish(data: &mut Data, args: &[&[u8]]) -> Outcome {
    publish_to(data, args, true)
}

fn publish_to(data: &mut Data, args: &[&[u8]], is_sharded: bool) -> Outcome {
    let most = data.limits().published_bytes;
    let reached = data.pubsub().publish(args[1], args[2], is_sharded, most);
    reached.map(Reply::count).ok_or_else(StoreError::out_of_memory)
}

pub(super) fn pubsub(data: &mut Data, args: &[&[u8]]) -> Outcome {
    let (subcommand, rest) = (args[1], &args[2..]);
    if is(subcommand, "numsub") {
        let mut budget = data.reply_budget();
        budget.spend_all(rest.iter().map(|channel| channel.len()))?;
        let counts = rest.iter().flat_map(|channel| {
            let count = data.pubsub().subscriber_count(channel);
            [Reply::bytes(*channel), Reply::count(count)]
        });
        return Ok(Reply::Array(counts.collect()));
    }
    if is(subcommand, "channels") {
        let pattern = match rest {
            [] => &b"*"[..],
            [pattern] => pattern,
            _ => return Err(StoreError::arity("pubsub|channels")),
        };
        let mut budget = data.reply_budget();
        let pattern = data.pattern(pattern);
        let channels = data.pubsub().channels().into_iter();
        let channels = channels.filter(|channel| pattern.matches(channel));
        let channels = channels.map(|channel| budget.bytes(&channel));
        let channels = Reply::Array(channels.collect::<Result<_, _>>()?);
        pattern.finish()?;
        return Ok(channels);
    }
    if is(subcommand, "numpat") && rest.is_empty() {
        return Ok(Reply::Int(0));
    }
    Err(unknown_subcommand("PUBSUB", subcommand))
}

/// Returns Redis' error for an unknown subcommand.
pub(crate) fn unknown_subcommand(command: &str, subcommand: &[u8]) -> StoreError {
    let excerpt = excerpt(subcommand, EXCERPT_BYTES);
    StoreError::err(format!("unknown subcommand '{excerpt}'. Try {command} HELP."))
}
