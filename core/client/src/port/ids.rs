//! The ids of requests and leases, in the form of hosts and in the form of a session.

/// The place of the generation in an id. The session of a forked child counts from the start again, so without a
/// generation its lease 1 would be mistaken for the parent's.
const GENERATION_SHIFT: u32 = 40;

/// Returns the id in the form of hosts.
pub(crate) const fn host_id(generation: u64, id: u64) -> u64 {
    (generation << GENERATION_SHIFT) | id
}

/// Returns the generation of an id in the form of hosts.
pub(crate) const fn generation_of(host_id: u64) -> u64 {
    host_id >> GENERATION_SHIFT
}

/// Returns the id in the form of the session.
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
