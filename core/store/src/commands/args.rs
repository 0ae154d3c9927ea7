//! Parses arguments as Redis does.

use crate::float;
use crate::reply::StoreError;

/// Parses a whole number in canonical form: no plus sign, no space, no leading zero.
pub(super) fn strict_int(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_canonical = match digits {
        b"0" => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !is_canonical {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a whole number.
pub(super) fn int(text: &[u8]) -> Result<i64, StoreError> {
    strict_int(text).ok_or_else(StoreError::not_an_integer)
}

pub(super) fn float(text: &[u8]) -> Result<f64, StoreError> {
    float::parse(text).ok_or_else(|| StoreError::err("value is not a valid float"))
}

/// Parses the number of elements to pop, which can be zero.
pub(super) fn positive(text: &[u8]) -> Result<usize, StoreError> {
    strict_int(text)
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| StoreError::err("value is out of range, must be positive"))
}

/// Returns whether an argument is this word, in upper or lower case.
pub(super) fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// Returns the range from `start` to `stop` in a list of `len` elements. Negative positions count from the end.
pub(super) fn range(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let position = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let first = position(start).max(0);
    let last = position(stop).min(len - 1);
    if first > last {
        return 0..0;
    }
    let position = |index: i64| usize::try_from(index).unwrap_or(0);
    position(first)..position(last) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_numbers_are_numbers() {
        for text in ["", "-", "-0", "01", "+1", " 1", "1 ", "1.0", "x", "9223372036854775808"] {
            assert_eq!(strict_int(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(strict_int(b"0"), Some(0));
        assert_eq!(strict_int(b"-9223372036854775808"), Some(i64::MIN));
    }

    #[test]
    fn ranges_count_from_the_end() {
        assert_eq!(range(0, -1, 3), 0..3);
        assert_eq!(range(-2, -1, 3), 1..3);
        assert_eq!(range(-9, 9, 3), 0..3);
        assert_eq!(range(2, 1, 3), 0..0);
        assert_eq!(range(0, -1, 0), 0..0);
    }
}
