//! Texts that several commands print in the same way.

use serde_json::{Value, json};

use crate::records::{Locked, Owner};

/// The exit status of a command about a single lock, if nobody holds that lock.
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

/// Returns the `name` of the holder, and then the number of primaries (RedLock), of permits (semaphore) or of other
/// holders, if there are any.
pub(super) fn describe_holder(lock: &Locked, name: String) -> String {
    match (lock.primaries, lock.limit, lock.holders) {
        (Some((primaries, of)), ..) => format!("{name} on {primaries} of {of}"),
        (_, Some(limit), held) => format!("{name}, {held} of {limit} permits"),
        (_, None, holders) if holders > 1 => format!("{name} and {} more", holders - 1),
        _ => name,
    }
}
