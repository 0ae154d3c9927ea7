//! The slot of a key or a channel in a cluster.

use crate::name::hash_tag;

/// Returns the slot of a key or a channel: a number below 16,384.
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    // The mask computes the remainder of a division by 16,384, a power of two.
    crc16(hash_tag(key)) & 0x3FFF
}

/// Computes CRC-16/XMODEM, the hash of a cluster's keys.
fn crc16(bytes: &[u8]) -> u16 {
    let step = |crc: u16, _: u32| {
        if crc & 0x8000 == 0 {
            crc << 1
        } else {
            (crc << 1) ^ 0x1021
        }
    };
    let of_byte = |crc: u16, byte: &u8| (0..8).fold(crc ^ (u16::from(*byte) << 8), step);
    bytes.iter().fold(0, of_byte)
}

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn slots_are_those_that_a_server_computes() {
        // The expected slots are from CLUSTER KEYSLOT.
        for (key, expected) in [("123456789", 12_739), ("foo", 12_182), ("{foo}:x", 12_182), ("", 0)] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }
}
