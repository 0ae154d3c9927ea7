//! Compares two replies.

use steadlock_protocol as protocol;
use steadlock_store::Reply;

/// How exactly two replies must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// In everything.
    Exact,
    /// In everything but the order of a list.
    Unordered,
    /// In everything but times: TTLs and tokens may differ by the time between two calls.
    Times,
    /// Like `Times`, and strings are not compared, because they may be random.
    TimesAndDrawn,
    /// In type and length only, because the value is random.
    Shape,
}

/// The longest time between the executions of a call on the two servers, in milliseconds.
const TOLERANCE_MS: i64 = 4_000;

/// Converts a reply to the form that RESP2 sends.
pub(crate) fn resp2(reply: Reply) -> Reply {
    match reply {
        Reply::Double(_) => match protocol::Reply::from(reply) {
            protocol::Reply::Bytes(bytes) => Reply::Bytes(bytes),
            other => panic!("a number became {other:?}"),
        },
        Reply::Array(items) | Reply::Set(items) => Reply::Array(items.into_iter().map(resp2).collect()),
        Reply::Map(pairs) | Reply::Pairs(pairs) => Reply::Array(
            pairs
                .into_iter()
                .flat_map(|(first, second)| [resp2(first), resp2(second)])
                .collect(),
        ),
        other => other,
    }
}

/// Describes the difference, if there is one.
pub(crate) fn differences(ours: &Reply, theirs: &Reply, check: Check) -> Option<String> {
    let is_same = match check {
        Check::Exact => ours == theirs,
        Check::Unordered => sorted(ours) == sorted(theirs),
        Check::Times => is_same_but_for_time(ours, theirs, false),
        Check::TimesAndDrawn => is_same_but_for_time(ours, theirs, true),
        Check::Shape => is_same_shape(ours, theirs),
    };
    (!is_same).then(|| format!("the store says {}, Redis says {}", show(ours), show(theirs)))
}

fn sorted(reply: &Reply) -> Reply {
    match reply {
        Reply::Array(items) => {
            let mut items: Vec<Reply> = items.iter().map(sorted).collect();
            items.sort_by_key(|item| format!("{item:?}"));
            Reply::Array(items)
        }
        other => other.clone(),
    }
}

fn is_same_but_for_time(ours: &Reply, theirs: &Reply, is_drawn: bool) -> bool {
    match (ours, theirs) {
        (Reply::Array(ours), Reply::Array(theirs)) => {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .zip(theirs)
                    .all(|(a, b)| is_same_but_for_time(a, b, is_drawn))
        }
        (Reply::Int(ours), Reply::Int(theirs)) if *ours > 0 && *theirs > 0 => {
            ours.abs_diff(*theirs) <= TOLERANCE_MS.unsigned_abs()
        }
        (Reply::Bytes(a), Reply::Bytes(b)) => {
            is_drawn
                || a == b
                || match (micros(a), micros(b)) {
                    (Some(a), Some(b)) => a.abs_diff(b) <= TOLERANCE_MS.unsigned_abs() * 1_000,
                    _ => false,
                }
        }
        _ => ours == theirs,
    }
}

/// Reads a token or a time of day as microseconds. As text it has microseconds or milliseconds.
fn micros(text: &[u8]) -> Option<i64> {
    let unit = match text.len() {
        16 => 1,
        13 => 1_000,
        _ => return None,
    };
    let is_plausible = text.iter().all(u8::is_ascii_digit);
    let number: i64 = std::str::from_utf8(text).ok().filter(|_| is_plausible)?.parse().ok()?;
    Some(number * unit)
}

fn is_same_shape(ours: &Reply, theirs: &Reply) -> bool {
    match (ours, theirs) {
        (Reply::Array(ours), Reply::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| is_same_shape(a, b))
        }
        (Reply::Bytes(_), Reply::Bytes(_)) => true,
        _ => ours == theirs,
    }
}

fn show(reply: &Reply) -> String {
    match reply {
        Reply::Bytes(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Reply::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        Reply::Error(error) => format!("error {error:?}", error = error.to_string()),
        other => format!("{other:?}"),
    }
}
