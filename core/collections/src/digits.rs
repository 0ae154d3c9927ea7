//! Numbers as decimal text, as commands carry them, made without an allocation.

/// The decimal digits of a number.
#[derive(Debug)]
pub struct Digits {
    digits: [u8; Self::MAX_LEN],
    /// The index of the first digit.
    start: usize,
}

impl Digits {
    /// The number of digits of the longest number.
    pub const MAX_LEN: usize = 20;

    /// Makes the digits of a number, without leading zeros.
    #[must_use]
    pub fn of(mut number: u64) -> Self {
        let mut digits = [b'0'; Self::MAX_LEN];
        let mut start = Self::MAX_LEN;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' | u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            start = start.saturating_sub(1);
            if number == 0 {
                break;
            }
        }
        Self { digits, start }
    }

    /// Returns the digits as ASCII.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_have_the_right_digits() {
        let lengths = (0..20).map(|zeros| 10_u64.pow(zeros));
        for number in lengths
            .flat_map(|power| [power - 1, power, power + 1])
            .chain([u64::MAX])
        {
            assert_eq!(Digits::of(number).as_bytes(), number.to_string().as_bytes());
        }
    }
}
