//! Texts that several commands print in the same way.

use serde_json::{Value, json};

use crate::records::{Locked, Owner};

/// The exit statuses of commands that only look at servers.
pub(super) const READ_EXIT_STATUSES: &str = "\
Exit status:
    0  done
    2  wrong usage
   69  the server could not be reached, or stopped answering
   78  the URL or the name is not acceptable, or the server refused: SECURITY.md has the rights";

/// The exit status if the lock is not held.
pub(super) const NOT_HELD: u8 = 1;

pub(super) fn owner_as_json(owner: &Owner) -> Value {
    let info = owner.info().map(|info| {
        json!({
            "host": info.host,
            "pid": info.pid,
            "program": info.program,
            "language": info.language,
            "version": info.version,
            "since": info.since,
            "label": info.label,
        })
    });
    json!({
        "owner": owner.id(),
        "client": owner.client(),
        "library": owner.library().as_str(),
        "info": info,
    })
}

/// Formats a number that may not be known.
pub(super) fn number_or_dash(number: Option<u64>) -> String {
    number.map_or_else(|| "-".into(), |number| number.to_string())
}

/// Describes the holder, and how many holders there are.
pub(super) fn describe_holder(lock: &Locked, name: String) -> String {
    match (lock.primaries, lock.limit, lock.holders) {
        (Some((primaries, of)), ..) => format!("{name} on {primaries} of {of}"),
        (_, Some(limit), held) => format!("{name}, {held} of {limit} permits"),
        (_, None, holders) if holders > 1 => format!("{name} and {} more", holders - 1),
        _ => name,
    }
}
