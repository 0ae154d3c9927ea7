//! What a multi-lock is asked for: its locks, their order, and how two sets of locks are compared.

use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::ids::NodeId;
use crate::kinds::{Gate, Keys, Kind};
use crate::name::LockName;
use crate::sorted::SortedMap;
use crate::types::AcquireRequest;

/// The locks of a multi-lock, sorted: the same locks in any order are the same set.
pub(super) type LockSet = Arc<[(Kind, LockName)]>;

/// The set of these locks.
pub(super) fn lock_set(locks: impl Iterator<Item = (Kind, LockName)>) -> LockSet {
    let locks: BinaryHeap<_> = locks.collect();
    locks.into_sorted_vec().into()
}

/// Puts requests into the order in which they are acquired, the same in every client; or says why
/// they make no multi-lock.
pub(crate) fn in_order(requests: Vec<AcquireRequest>) -> Result<Vec<AcquireRequest>, &'static str> {
    let mut by_place = SortedMap::new();
    for request in requests {
        if by_place.insert(place(&request), request).is_some() {
            return Err("one lock is named twice; name each once");
        }
    }
    if by_place.is_empty() {
        return Err("several locks are wanted, and none is named; name one at least");
    }
    Ok(by_place.into_values().collect())
}

/// What is contended for: two requests of one place would wait for each other.
fn place(request: &AcquireRequest) -> (Arc<[u8]>, Gate) {
    let keys = Keys::new(request.kind, &request.name, NodeId::default());
    (keys.record, request.kind.gate())
}
