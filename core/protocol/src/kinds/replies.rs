//! What replies mean.
//!
//! ```text
//! an attempt or a question
//!   {1}, {1, token}                  granted; of a question: it is free. A token may be empty
//!   {0, left, holder}                held, for `left` ms by a record with a TTL
//!   {0, left, holder, now}           the same, of a queue on the server (`HeldReply::Queued`)
//!   {0, left, holder, held, limit}   the same, of permits (`HeldReply::Permits`)
//! a renewal, a release, or what an operator does
//!   {1}, {1, listeners}              it was the owner's
//!   {1, listeners, grant}             the same, and the lock was granted to a waiter of this client
//!   {0}                              there is no record
//!   {2}                              it is another owner's
//! ```

use std::time::Duration;

use crate::foreign::shown_owner;
use crate::reply::Reply;
use crate::token::Token;

/// What a kind's scripts say of a lock that is held, besides for how long and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldReply {
    /// Nothing.
    Holder,
    /// When the server saw the waiter in its queue.
    Queued,
    /// How many permits are held, of how many.
    Permits,
}

/// The server's answer to an attempt or a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The asking owner holds the lock (or, for a question, it is free).
    Granted(Option<Token>),
    /// Somebody holds it; `ttl` is `None` for a record without TTL.
    Held {
        owner: String,
        ttl: Option<Duration>,
        /// A semaphore's permits: how many are held, of how many.
        permits: Option<(u32, u32)>,
        /// When the server put the owner into its queue, in µs of its own clock.
        queued: Option<u64>,
    },
}

/// The server's answer to a renewal or a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// It was the owner's, and it was renewed or removed. A release says how
    /// many connections heard of it.
    Mine { listeners: u32 },
    /// There is none.
    Absent,
    /// It is another owner's.
    Others,
}

/// Reads the reply to an attempt or a question; `None` if it is no such reply of the kind.
pub(super) fn parse_answer(told: HeldReply, reply: &Reply) -> Option<Answer> {
    let Reply::Array(parts) = reply else { return None };
    match parts.as_slice() {
        [Reply::Int(1)] => Some(Answer::Granted(None)),
        [Reply::Int(1), Reply::Bytes(token)] if token.is_empty() => Some(Answer::Granted(None)),
        [Reply::Int(1), Reply::Bytes(token)] => Some(Answer::Granted(Some(Token::parse(token)?))),
        [Reply::Int(0), Reply::Int(left), Reply::Bytes(holder), more @ ..] => {
            let (queued, permits) = match (told, more) {
                (_, []) => (None, None),
                (HeldReply::Queued, [Reply::Bytes(now)]) => (Some(parse_number(now)?), None),
                (HeldReply::Permits, [Reply::Int(held), Reply::Int(limit)]) => {
                    (None, Some((u32::try_from(*held).ok()?, u32::try_from(*limit).ok()?)))
                }
                _ => return None,
            };
            Some(Answer::Held {
                owner: shown_owner(holder),
                ttl: u64::try_from(*left).ok().map(Duration::from_millis),
                permits,
                queued,
            })
        }
        _ => None,
    }
}

/// Reads the reply to a renewal, a release or what an operator does; `None` if it is no such reply.
pub(crate) fn parse_record(reply: &Reply) -> Option<Record> {
    let Reply::Array(parts) = reply else { return None };
    match parts.as_slice() {
        [Reply::Int(1)] => Some(Record::Mine { listeners: 0 }),
        // The third is grant for `parse_grant`.
        [Reply::Int(1), Reply::Int(listeners)] | [Reply::Int(1), Reply::Int(listeners), Reply::Bytes(_)] => {
            Some(Record::Mine {
                listeners: u32::try_from(*listeners).unwrap_or(0),
            })
        }
        [Reply::Int(0)] => Some(Record::Absent),
        [Reply::Int(2)] => Some(Record::Others),
        _ => None,
    }
}

/// What the reply to a release says of a waiter of the same client that was granted the lock by it.
pub(crate) fn parse_grant(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::Array(parts) => match parts.as_slice() {
            [Reply::Int(1), Reply::Int(_), Reply::Bytes(grant)] => Some(grant),
            _ => None,
        },
        _ => None,
    }
}

/// Reads a number that the wire has as decimal text.
pub(crate) fn parse_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
