//! The ids of requests and leases, as hosts see them and as a session does.

/// Ids are told apart by generation: a forked child's session counts from the
/// start again, and its lease 1 must not be taken for the parent's.
const GENERATION_SHIFT: u32 = 40;

/// The id that hosts see.
pub(crate) const fn host_id(generation: u64, id: u64) -> u64 {
    (generation << GENERATION_SHIFT) | id
}

/// The generation of an id that hosts see.
pub(crate) const fn generation_of(host_id: u64) -> u64 {
    host_id >> GENERATION_SHIFT
}

/// The id that the session sees.
pub(crate) const fn session_id(host_id: u64) -> u64 {
    host_id & ((1 << GENERATION_SHIFT) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_two_generations_differ() {
        let (parent, child) = (host_id(0, 7), host_id(1, 7));
        assert_ne!(parent, child);
        assert_eq!((generation_of(child), session_id(child)), (1, 7));
    }
}
