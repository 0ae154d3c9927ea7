//! Randomness from the operating system.

use leasehold_protocol::Entropy;

/// Asks the operating system at each draw. Nothing is buffered, so a cloned
/// process or virtual machine cannot repeat what its original drew.
pub(crate) struct OsEntropy;

impl Entropy for OsEntropy {
    fn next_u64(&mut self) -> u64 {
        draw()
    }
}

/// 64 random bits.
///
/// # Panics
/// If the operating system has no randomness to give. An owner id that may
/// repeat could release another's lock, so there is nothing to fall back to.
pub(crate) fn draw() -> u64 {
    #[cfg(not(target_family = "wasm"))]
    match getrandom::u64() {
        Ok(bits) => bits,
        Err(error) => panic!("the operating system gave no randomness: {error}"),
    }
    #[cfg(target_family = "wasm")]
    crate::given::random()
}

/// A number in `0..bound`; `bound` must not be 0.
#[cfg(feature = "native")]
pub(crate) fn below(bound: u64) -> u64 {
    draw() % bound.max(1)
}
