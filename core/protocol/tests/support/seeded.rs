//! Repeatable randomness.

use steadlock_protocol::Entropy;

/// A small seeded generator (xorshift64*).
#[derive(Clone)]
pub(crate) struct Seeded(pub(crate) u64);

impl Entropy for Seeded {
    fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}
