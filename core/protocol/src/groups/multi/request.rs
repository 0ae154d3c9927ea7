//! What a multi-lock is asked for: its locks, their order, and how two sets of locks are compared.

use std::sync::Arc;

use crate::ids::NodeId;
use crate::kinds::{Gate, Keys, Kind};
use crate::name::LockName;
use crate::types::AcquireRequest;

/// The locks of a multi-lock, sorted: the same locks in any order are the same set.
pub(super) type LockSet = Arc<[(Kind, LockName)]>;

/// The set of these locks.
pub(super) fn lock_set(locks: impl Iterator<Item = (Kind, LockName)>) -> LockSet {
    let mut locks: Vec<_> = locks.collect();
    locks.sort();
    locks.into()
}

/// Puts requests into the order in which they are acquired, the same in every client; or says why
/// they make no multi-lock.
pub(crate) fn in_order(requests: &mut [AcquireRequest]) -> Result<(), &'static str> {
    requests.sort_by_key(place);
    let is_same = |pair: &[AcquireRequest]| matches!(pair, [a, b] if place(a) == place(b));
    if requests.is_empty() {
        Err("several locks are wanted, and none is named; name one at least")
    } else if requests.windows(2).any(is_same) {
        Err("one lock is named twice; name each once")
    } else {
        Ok(())
    }
}

/// What is contended for: two requests of one place would wait for each other.
fn place(request: &AcquireRequest) -> (Arc<[u8]>, Gate) {
    let keys = Keys::new(request.kind, &request.name, NodeId::default());
    (keys.record, request.kind.gate())
}
