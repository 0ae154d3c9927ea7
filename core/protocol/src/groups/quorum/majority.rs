//! How many primaries make a majority, and until when one may be relied on.

use crate::breakers::Outage;
use crate::ids::NodeId;
use crate::instant::Instant;
use crate::io::Io;
use crate::kinds::{Keys, Kind};
use crate::machines::waiters::refused_unasked;
use crate::types::{AcquireRequest, Outcome};

/// How many primaries make a majority.
pub(super) fn majority(io: &Io) -> usize {
    usize::from(io.config().primaries / 2).saturating_add(1)
}

/// All primaries.
pub(super) fn primaries(io: &Io) -> impl Iterator<Item = NodeId> + use<> {
    (0..io.config().primaries).map(NodeId)
}

/// What a caller is told at once while the circuit breakers of so many primaries are open that the
/// others are no majority.
pub(super) fn outage(io: &Io, request: &AcquireRequest, now: Instant) -> Option<Outcome> {
    if !io.breakers().is_any_open() {
        return None;
    }
    let keys = primaries(io).map(|node| Keys::new(Kind::Mutex, &request.name, node));
    let silent: Vec<&Outage> = keys.filter_map(|keys| io.outage(&keys)).collect();
    let serving = usize::from(io.config().primaries).saturating_sub(silent.len());
    let oldest = silent.into_iter().min_by_key(|outage| outage.since);
    let oldest = oldest.filter(|_| serving < majority(io))?;
    Some(refused_unasked(oldest, &request.name, request.on_unavailable, now))
}

/// The deadline of the majority's last member; `None` without a majority.
pub(super) fn last_of_majority<'a>(
    deadlines: impl IntoIterator<Item = &'a Instant>,
    majority: usize,
) -> Option<Instant> {
    // There are fifteen at the most.
    let mut latest_first: Vec<Instant> = Vec::new();
    for deadline in deadlines {
        let at = latest_first.partition_point(|later| later > deadline);
        latest_first.insert(at, *deadline);
    }
    latest_first.get(majority.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_quorum_hold_lasts_as_long_as_the_last_of_its_majority() {
        let at = |millis: &u64| Instant::ZERO + Duration::from_millis(*millis);
        let deadlines: Vec<Instant> = [50, 10, 40, 30].iter().map(at).collect();
        assert_eq!(last_of_majority(&deadlines, 3), Some(at(&30)));
        assert_eq!(last_of_majority(&deadlines, 5), None);
    }
}
