//! The patterns of `KEYS`, `SCAN` and `PUBSUB CHANNELS`: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a literal byte.

use std::cell::Cell;

use crate::reply::StoreError;

/// A pattern, and the number of steps that are left for matching texts against it.
pub(crate) struct Pattern<'a> {
    bytes: &'a [u8],
    steps: Cell<usize>,
}

impl<'a> Pattern<'a> {
    pub(crate) fn new(bytes: &'a [u8], steps: usize) -> Self {
        Self {
            bytes,
            steps: Cell::new(steps),
        }
    }

    /// Returns whether the pattern matches all of `text`. Once no steps are left, the result means nothing and `finish`
    /// fails.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let mut steps = self.steps.get();
        let matches = matches(self.bytes, text, &mut steps);
        self.steps.set(steps);
        matches
    }

    /// Returns an error if the steps were not enough for all texts.
    pub(crate) fn finish(&self) -> Result<(), StoreError> {
        match self.steps.get() {
            0 => Err(StoreError::too_slow()),
            _ => Ok(()),
        }
    }
}

/// Returns whether the pattern matches all of `text`.
///
/// Backtracks to the last star only, so the work is at most the product of the two lengths.
fn matches(pattern: &[u8], text: &[u8], steps: &mut usize) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut last_star = None;
    while t < text.len() {
        // Without this check, each further text would still read one class, which can be as long as the pattern.
        if *steps == 0 {
            return false;
        }
        let width = match pattern.get(p..) {
            Some([b'[', rest @ ..]) => match_class(rest, text[t]).1,
            _ => 1,
        };
        *steps = steps.saturating_sub(width);
        if *steps == 0 {
            return false;
        }
        if pattern.get(p) == Some(&b'*') {
            last_star = Some((p, t));
            p += 1;
        } else if let Some(width) = match_one(&pattern[p..], text[t]) {
            p += width;
            t += 1;
        } else if let Some((star, from)) = last_star {
            last_star = Some((star, from + 1));
            p = star + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Returns the length of the pattern's first element if it matches `byte`.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => {
            let (is_in, width) = match_class(rest, byte);
            is_in.then_some(width + 1)
        }
        [first, ..] => (*first == byte).then_some(1),
        [] => None,
    }
}

/// Returns whether `byte` matches the class that begins after `[`, and the length of the class.
fn match_class(pattern: &[u8], byte: u8) -> (bool, usize) {
    let is_negated = pattern.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut is_in = false;
    loop {
        match &pattern[at..] {
            // A class without a closing bracket ends with the pattern.
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                is_in |= *escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                is_in |= (*from.min(to)..=*from.max(to)).contains(&byte);
                at += 3;
            }
            [single, ..] => {
                is_in |= *single == byte;
                at += 1;
            }
        }
    }
    (is_in != is_negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("*ab*ab", "xabab", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[c-a]x", "bx", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("[ab", "b", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(
                Pattern::new(pattern.as_bytes(), 1_000).matches(text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn matching_stops_when_its_steps_are_used_up() {
        let pattern = [b"*".as_slice(), &[b'a'; 1_000], b"b"].concat();
        let pattern = Pattern::new(&pattern, 100_000);
        assert!(!pattern.matches(&[b'a'; 100_000]));
        assert!(pattern.finish().is_err());
    }
}
