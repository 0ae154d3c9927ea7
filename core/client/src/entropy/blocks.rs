//! Randomness from the operating system, in blocks.

use std::time::{Duration, SystemTime};

use steadlock_protocol::Entropy;

/// A source that draws a block of numbers from the operating system at a time: one system call for each number would
/// cost a twentieth of a busy client's time.
///
/// A copy of a virtual machine has the rest of the block too, so the block alone cannot make numbers unique. A block is
/// therefore discarded after [`BLOCK_LIFETIME`], and each number is mixed with the time of the draw. A forked child has
/// its own engine, and with it its own block.
pub(crate) struct OsEntropy {
    block: [u64; BLOCK_SIZE],
    /// The count of numbers not yet drawn.
    left: usize,
    filled: SystemTime,
}

/// The count of numbers in a block.
const BLOCK_SIZE: usize = 32;
/// The time for which a block may be used.
const BLOCK_LIFETIME: Duration = Duration::from_millis(10);

impl Default for OsEntropy {
    fn default() -> Self {
        Self {
            block: [0; BLOCK_SIZE],
            left: 0,
            filled: SystemTime::UNIX_EPOCH,
        }
    }
}

impl Entropy for OsEntropy {
    fn next_u64(&mut self) -> u64 {
        let now = SystemTime::now();
        // If the clock was set back, the block counts as old, too.
        let is_fresh = now.duration_since(self.filled).is_ok_and(|age| age < BLOCK_LIFETIME);
        if self.left == 0 || !is_fresh {
            fill(&mut self.block);
            self.left = BLOCK_SIZE;
            self.filled = now;
        }
        self.left -= 1;
        self.block[self.left] ^ mixed(now)
    }
}

/// Spreads the time over all bits: a difference of one nanosecond changes about half of them.
fn mixed(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let nanos = since
        .as_secs()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(since.subsec_nanos().into());
    // The steps of SplitMix64.
    let bits = nanos.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Fills `numbers` with random bits.
///
/// # Panics
/// If the operating system provides no randomness. There is no fallback, because an owner id that repeats could release
/// another owner's lock.
fn fill(numbers: &mut [u64]) {
    let mut bytes = [0; BLOCK_SIZE * size_of::<u64>()];
    let bytes = &mut bytes[..size_of_val(numbers)];
    if let Err(error) = getrandom::fill(bytes) {
        panic!("the operating system gave no randomness: {error}");
    }
    for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
        *number = u64::from_ne_bytes(*bytes);
    }
}

/// Returns a random number in `0..bound`; 0 if `bound` is 0.
#[cfg(feature = "native")]
pub(crate) fn below(bound: u64) -> u64 {
    let mut number = [0];
    fill(&mut number);
    number[0] % bound.max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_do_not_repeat_within_a_block_or_beyond() {
        let mut entropy = OsEntropy::default();
        let drawn: BTreeSet<u64> = (0..10 * BLOCK_SIZE).map(|_| entropy.next_u64()).collect();
        assert_eq!(drawn.len(), 10 * BLOCK_SIZE);
    }

    #[test]
    fn a_block_is_discarded_if_it_is_old_or_from_the_future() {
        for filled in [
            SystemTime::now() - BLOCK_LIFETIME,
            SystemTime::now() + Duration::from_secs(3_600),
        ] {
            let mut entropy = OsEntropy {
                block: [7; BLOCK_SIZE],
                left: BLOCK_SIZE,
                filled,
            };
            entropy.next_u64();
            assert!(entropy.block.iter().all(|number| *number != 7));
        }
    }

    #[test]
    fn a_copy_draws_other_numbers_than_its_original() {
        let mut original = OsEntropy::default();
        original.next_u64();
        let mut copy = OsEntropy {
            block: original.block,
            left: original.left,
            filled: original.filled,
        };
        let drawn: BTreeSet<u64> = (0..8).flat_map(|_| [original.next_u64(), copy.next_u64()]).collect();
        assert_eq!(drawn.len(), 16);
    }
}
