//! Finds the end of a frame that arrives in pieces. Each byte is examined once, whatever the pieces: a server may send
//! a long frame byte by byte.

use super::resp::{Limits, Unreadable, length};

/// The search for the end of a frame, which continues where it stopped.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The start of the next value. Beyond the bytes that have arrived while a long value is incomplete.
    at: usize,
    /// The number of bytes of that value that are known to contain no end of a line.
    searched: usize,
    /// The number of values that have begun, and the number of those still to come.
    begun: usize,
    missing: usize,
    #[cfg(test)]
    steps: usize,
}

impl Scan {
    /// Whether `bytes` begin with a whole frame. They are the bytes of the previous call, and more.
    pub(super) fn is_whole(&mut self, bytes: &[u8], limits: Limits) -> Result<bool, Unreadable> {
        while self.begun == 0 || self.missing > 0 {
            if !self.step(bytes, limits)? {
                return if bytes.len() < limits.bytes {
                    Ok(false)
                } else {
                    Err(Unreadable::TooLong)
                };
            }
        }
        Ok(self.at <= bytes.len())
    }

    /// Steps over one value, or over the header of one that contains others. Returns false if it is incomplete.
    fn step(&mut self, bytes: &[u8], limits: Limits) -> Result<bool, Unreadable> {
        let Some(value) = bytes.get(self.at..) else {
            return Ok(false);
        };
        let rest = value.get(self.searched..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == b'\r').unwrap_or(rest.len());
        #[cfg(test)]
        {
            self.steps += rest.len().min(end + 2);
        }
        match rest.get(end + 1) {
            Some(b'\n') => {}
            Some(_) => return Err(Unreadable::Malformed),
            None => {
                self.searched += end;
                return Ok(false);
            }
        }
        let line = &value[..self.searched + end];
        self.searched = 0;
        let (kind, line) = line.split_first().ok_or(Unreadable::Malformed)?;
        self.missing = self.missing.saturating_sub(1);
        self.begun += 1;
        self.at += line.len() + 3;
        let values_of = match kind {
            b'$' | b'=' | b'!' => {
                if let Some(length) = length(line, limits)? {
                    self.at += length + 2;
                }
                0
            }
            b'*' | b'~' | b'>' => length(line, limits)?.unwrap_or(0),
            b'%' => length(line, limits)?.unwrap_or(0).saturating_mul(2),
            // The value that the attribute describes follows, too.
            b'|' => length(line, limits)?.unwrap_or(0).saturating_mul(2).saturating_add(1),
            _ => 0,
        };
        self.missing = self.missing.saturating_add(values_of);
        if self.begun.saturating_add(self.missing) > limits.values {
            return Err(Unreadable::TooLong);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use steadlock_protocol::Reply;

    use super::*;
    use crate::transport::redis::resp::decode;
    use crate::transport::redis::resp::tests::EVERY_KIND;

    #[test]
    fn the_end_of_a_frame_is_found_whatever_the_pieces() {
        let nested = "*3\r\n*2\r\n:1\r\n$5\r\na\r\nb\n\r\n%1\r\n+k\r\n*0\r\n|1\r\n+ttl\r\n:3\r\n$-1\r\n";
        for sent in EVERY_KIND.into_iter().chain([nested]) {
            assert_eq!(
                decode(sent.as_bytes(), Limits::KNOWN).unwrap().expect("a frame").1,
                sent.len()
            );
            let two = [sent, "+more\r\n"].concat();
            for piece in 1..=sent.len() {
                let mut scan = Scan::default();
                for come in (piece..two.len()).step_by(piece) {
                    let is_whole = scan.is_whole(&two.as_bytes()[..come], Limits::KNOWN);
                    assert_eq!(is_whole, Ok(come >= sent.len()), "{sent} up to {come}");
                }
            }
        }
    }

    #[test]
    fn the_end_of_a_long_frame_is_looked_for_once_at_each_byte() {
        let inner = format!("*100\r\n{}", "$1\r\na\r\n".repeat(100));
        let sent = format!("*1000\r\n{}", inner.repeat(1_000));
        let mut scan = Scan::default();
        for come in (1..sent.len()).step_by(777) {
            assert_eq!(scan.is_whole(&sent.as_bytes()[..come], Limits::KNOWN), Ok(false));
        }
        assert_eq!(scan.is_whole(sent.as_bytes(), Limits::KNOWN), Ok(true));
        let pieces = sent.len() / 777 + 2;
        assert!(
            scan.steps <= sent.len() + pieces,
            "{} steps for {} bytes",
            scan.steps,
            sent.len()
        );
    }

    #[test]
    fn what_is_longer_than_any_answer_ends_the_connection_before_it_has_come() {
        let many = format!("*{}\r\n", Limits::KNOWN.values + 1);
        let nested = format!("*2\r\n*{0}\r\n{1}*{0}\r\n", 600_000, ":1\r\n".repeat(600_000));
        for sent in [
            "$99999999999\r\n",
            "*99999999999\r\n",
            "%9223372036854775807\r\n",
            &many,
            &nested,
        ] {
            let start: String = sent.chars().take(30).collect();
            let decoded = decode(sent.as_bytes(), Limits::KNOWN);
            assert_eq!(decoded, Err(Unreadable::TooLong), "{start}");
            let scanned = Scan::default().is_whole(sent.as_bytes(), Limits::KNOWN);
            assert_eq!(scanned, Err(Unreadable::TooLong), "{start}");
        }
        let message = format!("${}\r\n", Limits::STRANGER.bytes + 1);
        assert_eq!(decode(message.as_bytes(), Limits::STRANGER), Err(Unreadable::TooLong));
        assert_eq!(decode(message.as_bytes(), Limits::KNOWN), Ok(None));
        let line = "+".repeat(Limits::STRANGER.bytes);
        assert_eq!(decode(line.as_bytes(), Limits::STRANGER), Err(Unreadable::TooLong));
        let scanned = Scan::default().is_whole(line.as_bytes(), Limits::STRANGER);
        assert_eq!(scanned, Err(Unreadable::TooLong));
    }

    #[test]
    fn the_most_that_is_read_takes_no_more_memory_than_a_hundred_megabytes() {
        // The costliest frame: each value has an allocation of its own, of the smallest size.
        let allocated = 32;
        let costs = Limits::KNOWN.values * (size_of::<Reply>() + allocated);
        // The read buffer grows by doubling.
        assert!(costs + 2 * Limits::KNOWN.bytes <= 100 << 20, "{costs}");
    }
}
