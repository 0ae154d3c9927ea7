//! When tables free the memory that they do not need.

/// The capacity that a table of this length is shrunk to, if it keeps far more.
pub(crate) fn shrunk(length: usize, capacity: usize) -> Option<usize> {
    (capacity > 64 && length * 4 < capacity).then_some(length * 2)
}
