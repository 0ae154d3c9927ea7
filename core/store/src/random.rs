//! The random numbers of scripts and of `HRANDFIELD`.

/// The generator of POSIX `lrand48`, with which Redis replaces Lua's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(0x1234_ABCD_330E)
    }
}

impl Random {
    /// The largest number that `next` returns.
    pub(crate) const MAX: u32 = 0x7FFF_FFFF;

    pub(crate) fn seed(&mut self, seed: i32) {
        self.0 = (u64::from(seed.cast_unsigned()) << 16) | 0x330E;
    }

    /// Returns a number from 0 to 2^31 - 1.
    pub(crate) fn next(&mut self) -> u32 {
        self.0 = (self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB)) & 0xFFFF_FFFF_FFFF;
        u32::try_from(self.0 >> 17).unwrap_or(Self::MAX)
    }

    /// Returns a number below `bound`, which must not be zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let drawn = (u64::from(self.next()) << 31) | u64::from(self.next());
        usize::try_from(drawn).unwrap_or(0) % bound
    }
}
