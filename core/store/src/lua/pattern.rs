//! Lua 5.1's pattern matching, with an end.
//!
//! Lua's own goes back over the text as often as it takes, which no hook
//! interrupts, and takes a frame of the C stack for each item of the pattern.
//! This one counts its steps and its depth, and matches the same otherwise.

use super::guard::Guard;
use crate::limits::PATTERN_DEPTH;

/// The most captures of a pattern.
const MAX_CAPTURES: usize = 32;
/// How many steps are taken between two looks at the budget.
const STEPS_PER_CHARGE: u32 = 4_096;

/// Why a match could not be decided.
#[derive(Debug)]
pub(super) enum Problem {
    /// The pattern is wrong.
    Malformed(String),
    /// The budget is used up.
    Over(mlua::Error),
}

fn malformed(why: &str) -> Problem {
    Problem::Malformed(why.to_owned())
}

type Outcome<T> = Result<T, Problem>;

/// A part of the text that a pattern names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// From here to there.
    Range(usize, usize),
    /// A place, counted from one.
    Position(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Open,
    Position,
    Closed(usize),
}

/// One text against one pattern.
pub(super) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    guard: &'a Guard,
    captures: [(usize, Length); MAX_CAPTURES],
    level: usize,
    depth: usize,
    steps: u32,
}

impl<'a> Matcher<'a> {
    /// The pattern is without its anchor.
    pub(super) fn new(text: &'a [u8], pattern: &'a [u8], guard: &'a Guard) -> Self {
        Self {
            text,
            pattern,
            guard,
            captures: [(0, Length::Open); MAX_CAPTURES],
            level: 0,
            depth: 0,
            steps: 0,
        }
    }

    /// Where a match that begins at `from` ends.
    pub(super) fn match_at(&mut self, from: usize) -> Outcome<Option<usize>> {
        self.level = 0;
        self.depth = 0;
        self.go(from, 0)
    }

    /// The captures of the last match.
    pub(super) fn captures(&self) -> Outcome<Vec<Capture>> {
        (0..self.level).map(|index| self.capture(index)).collect()
    }

    /// One capture of the last match; the first is the whole if there are none.
    pub(super) fn one(&self, index: usize, whole: (usize, usize)) -> Outcome<Capture> {
        match index {
            0 if self.level == 0 => Ok(Capture::Range(whole.0, whole.1)),
            _ if index >= self.level => Err(malformed("invalid capture index")),
            _ => self.capture(index),
        }
    }

    fn capture(&self, index: usize) -> Outcome<Capture> {
        let (start, length) = self.captures[index];
        match length {
            Length::Closed(length) => Ok(Capture::Range(start, start + length)),
            Length::Position => Ok(Capture::Position(start + 1)),
            Length::Open => Err(malformed("unfinished capture")),
        }
    }

    fn step(&mut self) -> Outcome<()> {
        self.steps += 1;
        if self.steps >= STEPS_PER_CHARGE {
            self.charge()?;
        }
        Ok(())
    }

    /// A set takes the longer the more is in it.
    fn read(&mut self, p: usize, after: usize) {
        self.steps = self
            .steps
            .saturating_add(u32::try_from((after - p) / 4).unwrap_or(u32::MAX));
    }

    /// Takes the steps so far off the script's budget.
    pub(super) fn charge(&mut self) -> Outcome<()> {
        let steps = std::mem::take(&mut self.steps);
        self.guard.charge(u64::from(steps)).map_err(Problem::Over)
    }

    fn at(&self, place: usize) -> Option<u8> {
        self.pattern.get(place).copied()
    }

    /// Matches the rest of the pattern, from `p`, with the text from `s`.
    fn go(&mut self, mut s: usize, mut p: usize) -> Outcome<Option<usize>> {
        self.depth += 1;
        if self.depth > PATTERN_DEPTH {
            return Err(malformed("pattern too complex"));
        }
        let end = loop {
            self.step()?;
            let Some(first) = self.at(p) else { break Some(s) };
            match first {
                b'(' if self.at(p + 1) == Some(b')') => break self.open(s, p + 2, Length::Position)?,
                b'(' => break self.open(s, p + 1, Length::Open)?,
                b')' => break self.close(s, p + 1)?,
                b'%' if self.at(p + 1) == Some(b'b') => match self.balanced(s, p + 2)? {
                    Some(after) => {
                        (s, p) = (after, p + 4);
                        continue;
                    }
                    None => break None,
                },
                b'%' if self.at(p + 1) == Some(b'f') => match self.frontier(s, p + 2)? {
                    Some(after) => {
                        p = after;
                        continue;
                    }
                    None => break None,
                },
                b'%' if self.at(p + 1).is_some_and(|byte| byte.is_ascii_digit()) => {
                    match self.back_reference(s, p + 1)? {
                        Some(after) => {
                            (s, p) = (after, p + 2);
                            continue;
                        }
                        None => break None,
                    }
                }
                b'$' if p + 1 == self.pattern.len() => break (s == self.text.len()).then_some(s),
                _ => {}
            }
            let after = self.class_end(p)?;
            self.read(p, after);
            let matches = self.matches_one(s, p, after);
            match self.at(after) {
                Some(b'?') => {
                    if matches && let Some(end) = self.go(s + 1, after + 1)? {
                        break Some(end);
                    }
                    p = after + 1;
                }
                Some(b'*') => break self.most(s, p, after)?,
                Some(b'+') => break if matches { self.most(s + 1, p, after)? } else { None },
                Some(b'-') => break self.fewest(s, p, after)?,
                _ if matches => (s, p) = (s + 1, after),
                _ => break None,
            }
        };
        self.depth -= 1;
        Ok(end)
    }

    /// Where the set at `p` ends, if the byte before `s` is not in it and the one at `s` is.
    fn frontier(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        if self.at(p) != Some(b'[') {
            return Err(malformed("missing '[' after '%f' in pattern"));
        }
        let after = self.class_end(p)?;
        self.read(p, after);
        let before = if s == 0 { 0 } else { self.text[s - 1] };
        let next = self.text.get(s).copied().unwrap_or(0);
        let is_there = !self.in_set(before, p, after - 1) && self.in_set(next, p, after - 1);
        Ok(is_there.then_some(after))
    }

    fn open(&mut self, s: usize, p: usize, length: Length) -> Outcome<Option<usize>> {
        if self.level >= MAX_CAPTURES {
            return Err(malformed("too many captures"));
        }
        self.captures[self.level] = (s, length);
        self.level += 1;
        let end = self.go(s, p)?;
        if end.is_none() {
            self.level -= 1;
        }
        Ok(end)
    }

    fn close(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        let open = (0..self.level)
            .rev()
            .find(|index| self.captures[*index].1 == Length::Open);
        let open = open.ok_or_else(|| malformed("invalid pattern capture"))?;
        self.captures[open].1 = Length::Closed(s - self.captures[open].0);
        let end = self.go(s, p)?;
        if end.is_none() {
            self.captures[open].1 = Length::Open;
        }
        Ok(end)
    }

    /// `%bxy`: from an x to its y.
    fn balanced(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        let (Some(begin), Some(end)) = (self.at(p), self.at(p + 1)) else {
            return Err(malformed("unbalanced pattern"));
        };
        if self.text.get(s) != Some(&begin) {
            return Ok(None);
        }
        let mut open = 1_usize;
        for place in s + 1..self.text.len() {
            self.step()?;
            let byte = self.text[place];
            if byte == end {
                open -= 1;
                if open == 0 {
                    return Ok(Some(place + 1));
                }
            } else if byte == begin {
                open += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        let digit = self.at(p).unwrap_or(b'0');
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        if index >= self.level || self.captures[index].1 == Length::Open {
            return Err(malformed("invalid capture index"));
        }
        // C compares with the length of a position as if it were huge, which never matches.
        let Capture::Range(start, end) = self.capture(index)? else {
            return Ok(None);
        };
        let captured = &self.text[start..end];
        self.steps = self
            .steps
            .saturating_add(u32::try_from(captured.len() / 16).unwrap_or(u32::MAX));
        self.step()?;
        Ok(self.text[s..].starts_with(captured).then(|| s + captured.len()))
    }

    /// As many as there are, then fewer.
    fn most(&mut self, s: usize, p: usize, after: usize) -> Outcome<Option<usize>> {
        let mut count = 0;
        while self.matches_one(s + count, p, after) {
            self.step()?;
            self.read(p, after);
            count += 1;
        }
        loop {
            if let Some(end) = self.go(s + count, after + 1)? {
                return Ok(Some(end));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    /// None, then more.
    fn fewest(&mut self, mut s: usize, p: usize, after: usize) -> Outcome<Option<usize>> {
        loop {
            if let Some(end) = self.go(s, after + 1)? {
                return Ok(Some(end));
            }
            self.read(p, after);
            if !self.matches_one(s, p, after) {
                return Ok(None);
            }
            s += 1;
        }
    }

    /// Where the single character class at `p` ends.
    fn class_end(&self, p: usize) -> Outcome<usize> {
        let mut p = p + 1;
        match self.at(p - 1) {
            Some(b'%') if self.at(p).is_none() => Err(malformed("malformed pattern (ends with '%')")),
            Some(b'%') => Ok(p + 1),
            Some(b'[') => {
                if self.at(p) == Some(b'^') {
                    p += 1;
                }
                // The first is never the end.
                loop {
                    let Some(byte) = self.at(p) else {
                        return Err(malformed("malformed pattern (missing ']')"));
                    };
                    p += 1;
                    if byte == b'%' && self.at(p).is_some() {
                        p += 1;
                    }
                    if self.at(p) == Some(b']') {
                        return Ok(p + 1);
                    }
                }
            }
            _ => Ok(p),
        }
    }

    fn matches_one(&self, s: usize, p: usize, after: usize) -> bool {
        let Some(byte) = self.text.get(s).copied() else {
            return false;
        };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, after - 1),
            own => own == byte,
        }
    }

    /// Whether the set from `[` at `p` to `]` at `end` has the byte.
    fn in_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let is_negated = self.at(p + 1) == Some(b'^');
        let mut p = p + usize::from(is_negated) + 1;
        while p < end {
            let own = self.pattern[p];
            if own == b'%' {
                p += 1;
                if in_class(byte, self.pattern[p]) {
                    return !is_negated;
                }
            } else if self.at(p + 1) == Some(b'-') && p + 2 < end {
                if (own..=self.pattern[p + 2]).contains(&byte) {
                    return !is_negated;
                }
                p += 2;
            } else if own == byte {
                return !is_negated;
            }
            p += 1;
        }
        is_negated
    }
}

/// Whether the byte is in the class of this letter, in C's own locale.
fn in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}
