//! Randomness from the operating system; on WebAssembly, from the program.

#[cfg(not(target_family = "wasm"))]
mod blocks;

#[cfg(not(target_family = "wasm"))]
pub(crate) use self::blocks::OsEntropy;
#[cfg(feature = "native")]
pub(crate) use self::blocks::below;

/// Randomness from the program, by one call for each number.
#[cfg(target_family = "wasm")]
#[derive(Default)]
pub(crate) struct OsEntropy;

#[cfg(target_family = "wasm")]
impl steadlock_protocol::Entropy for OsEntropy {
    fn next_u64(&mut self) -> u64 {
        crate::environment::random()
    }
}
