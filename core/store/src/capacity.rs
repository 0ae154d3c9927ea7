//! Decides when tables free memory that they do not need.

/// Returns the capacity to which a table with this many elements should shrink; `None` if its capacity is not far too
/// large.
pub(crate) fn shrunk_capacity(length: usize, capacity: usize) -> Option<usize> {
    (capacity > 64 && length * 4 < capacity).then_some(length * 2)
}
