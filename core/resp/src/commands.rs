//! Commands, which a client writes and a server reads: arrays of strings, or lines as a human types them.

use std::fmt;

use steadlock_collections::Digits;

pub use crate::parts::bulk;
use crate::parts::{header, number};

/// Appends a command to `out`.
pub fn write<'a>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'a [u8]>) {
    begin(out, words.len());
    for word in words {
        bulk(out, word);
    }
}

/// Begins a command with this many words. The caller then appends each word by [`bulk`] or [`bulk_number`].
pub fn begin(out: &mut Vec<u8>, words: usize) {
    header(out, b'*', words);
}

/// Appends one word that is a number.
pub fn bulk_number(out: &mut Vec<u8>, number: usize) {
    bulk(out, Digits::of(number as u64).as_bytes());
}

/// The limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Words of a request.
    pub words: usize,
    /// Bytes of one word.
    pub word_bytes: usize,
    /// Bytes of a whole request, including a fixed number for each word.
    pub request_bytes: usize,
    /// Bytes of a line.
    pub line_bytes: usize,
    /// Whether these are the limits before the login. If so, the errors about a length or a count say
    /// `unauthenticated`.
    pub is_before_login: bool,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self {
        words: usize::MAX,
        word_bytes: usize::MAX,
        request_bytes: usize::MAX,
        line_bytes: usize::MAX,
        is_before_login: false,
    };

    fn refuse(&self, what: &str) -> ProtocolError {
        let why = if self.is_before_login {
            "unauthenticated"
        } else {
            "invalid"
        };
        ProtocolError(format!("{why} {what}"))
    }
}

/// The words of a request. The first one is the name of the command.
pub type Request = Vec<Vec<u8>>;

/// The memory that a word takes beside its content.
const WORD_EXTRA: usize = 48;

/// The error for bytes that are no request, or that exceed the limits. A server sends it and closes the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError(String);

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.0)
    }
}

/// Collects bytes and returns complete requests. No byte is searched twice for a line break, even if the bytes arrive
/// in small pieces.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// The position of the first byte that has not been decoded.
    at: usize,
    /// How many bytes after `at` are known to have no line break.
    scanned: usize,
    partial: Option<Partial>,
    limits: Limits,
}

/// A request that has arrived only in part.
#[derive(Debug)]
struct Partial {
    words: Request,
    missing: usize,
    bytes: usize,
    /// The length of the next word, once it is known.
    next: Option<usize>,
}

impl Decoder {
    /// The bytes that are read at once. A longer buffer is freed or shrinks once its requests are decoded.
    pub const READ_BYTES: usize = 16 * 1024;

    /// Makes a decoder without bytes.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            buffer: Vec::new(),
            at: 0,
            scanned: 0,
            partial: None,
            limits,
        }
    }

    /// Changes the limits for what is not yet decoded.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the buffer to which bytes must be appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
            // The memory of one huge request is not kept for ever.
            self.buffer.shrink_to(Self::READ_BYTES);
        }
        &mut self.buffer
    }

    /// Frees the buffer if all its bytes are decoded, and shrinks it if only a few are not. Returns whether no part of
    /// a request has arrived.
    pub fn free_unused(&mut self) -> bool {
        let left = self.buffer.len() - self.at;
        let is_empty = left == 0;
        if is_empty {
            self.buffer = Vec::new();
            self.at = 0;
        } else if left < Self::READ_BYTES {
            // Many clients that begin a request and never finish it must not use much memory.
            self.buffer().shrink_to_fit();
        }
        is_empty && self.partial.is_none()
    }

    /// Returns the memory of incomplete requests, in bytes.
    pub fn memory(&self) -> usize {
        let buffer = match self.buffer.capacity() {
            // A buffer of this size shrinks when its requests are decoded, so only its undecoded bytes count.
            capacity if capacity <= 2 * Self::READ_BYTES => self.buffer.len() - self.at,
            capacity => capacity,
        };
        buffer + self.partial.as_ref().map_or(0, |partial| partial.bytes)
    }

    /// Returns the next complete request; `None` if no request is complete yet.
    pub fn next_request(&mut self) -> Result<Option<Request>, ProtocolError> {
        loop {
            let request = if self.partial.is_some() {
                self.next_word()?
            } else {
                self.begin()?
            };
            match request {
                Step::NeedsMore => return Ok(None),
                Step::Continue => {}
                // An empty line or an empty array is no request.
                Step::Done(words) if words.is_empty() => {}
                Step::Done(words) => return Ok(Some(words)),
            }
        }
    }

    fn begin(&mut self) -> Result<Step, ProtocolError> {
        let Some(first) = self.buffer.get(self.at) else {
            return Ok(Step::NeedsMore);
        };
        let is_array = *first == b'*';
        let Some(line) = self.line()? else {
            return Ok(Step::NeedsMore);
        };
        if !is_array {
            return split_line(&line).map(Step::Done);
        }
        let most = self.limits.words;
        let missing = match length(&line[1..]) {
            Some(..=0) => return Ok(Step::Done(Vec::new())),
            Some(count) => usize::try_from(count).ok().filter(|count| *count <= most),
            None => None,
        };
        let Some(missing) = missing else {
            return Err(self.limits.refuse("multibulk length"));
        };
        self.partial = Some(Partial {
            // The announced number is not trusted: at first, memory is reserved for at most 16 words.
            words: Vec::with_capacity(missing.min(16)),
            missing,
            bytes: 0,
            next: None,
        });
        Ok(Step::Continue)
    }

    fn next_word(&mut self) -> Result<Step, ProtocolError> {
        let next = self.partial.as_ref().and_then(|partial| partial.next);
        let length = match next {
            Some(length) => length,
            None => match self.word_length()? {
                Some(length) => length,
                None => return Ok(Step::NeedsMore),
            },
        };
        let end = self.at + length;
        let Some(partial) = &mut self.partial else {
            return Ok(Step::Continue);
        };
        if self.buffer.len() < end + 2 {
            partial.next = Some(length);
            return Ok(Step::NeedsMore);
        }
        partial.words.push(self.buffer[self.at..end].to_vec());
        partial.missing -= 1;
        partial.next = None;
        // As in Redis, the two bytes after the word are assumed to be a line break.
        self.at = end + 2;
        if partial.missing > 0 {
            return Ok(Step::Continue);
        }
        let words = self.partial.take().map(|partial| partial.words);
        Ok(Step::Done(words.unwrap_or_default()))
    }

    fn word_length(&mut self) -> Result<Option<usize>, ProtocolError> {
        if let Some(first) = self.buffer.get(self.at)
            && *first != b'$'
        {
            let shown = char::from(*first).escape_default();
            return Err(ProtocolError(format!("expected '$', got '{shown}'")));
        }
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        let most = self.limits.word_bytes;
        let length = length(&line[1..])
            .and_then(|length| usize::try_from(length).ok())
            .filter(|length| *length <= most);
        let (Some(length), Some(partial)) = (length, &mut self.partial) else {
            return Err(self.limits.refuse("bulk length"));
        };
        partial.bytes += length + WORD_EXTRA;
        if partial.bytes > self.limits.request_bytes {
            return Err(ProtocolError("too big request".into()));
        }
        Ok(Some(length))
    }

    /// Returns the next line, without its break.
    fn line(&mut self) -> Result<Option<Vec<u8>>, ProtocolError> {
        let rest = &self.buffer[self.at..];
        let Some(end) = rest[self.scanned..].iter().position(|byte| *byte == b'\n') else {
            if rest.len() > self.limits.line_bytes {
                return Err(ProtocolError("too big inline request".into()));
            }
            self.scanned = rest.len();
            return Ok(None);
        };
        let end = self.scanned + end;
        self.scanned = 0;
        let line = &rest[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        self.at += end + 1;
        Ok(Some(line))
    }
}

enum Step {
    NeedsMore,
    Continue,
    Done(Request),
}

/// Parses a length or a count. [`number`] would accept a plus sign, which no client sends.
fn length(digits: &[u8]) -> Option<i64> {
    if digits.first() == Some(&b'+') || digits.len() > 20 {
        return None;
    }
    number(digits)
}

/// Splits a typed line at spaces, except between quotes.
fn split_line(line: &[u8]) -> Result<Request, ProtocolError> {
    let unbalanced = || ProtocolError("unbalanced quotes in request".into());
    let mut words = Vec::new();
    let mut rest = line.trim_ascii();
    while !rest.is_empty() {
        let mut word = Vec::new();
        while let [first, after @ ..] = rest {
            match first {
                b' ' | b'\t' | b'\r' | b'\0' => break,
                b'"' => rest = double_quoted(after, &mut word).ok_or_else(unbalanced)?,
                b'\'' => rest = single_quoted(after, &mut word).ok_or_else(unbalanced)?,
                other => {
                    word.push(*other);
                    rest = after;
                    continue;
                }
            }
            // A space must follow a quoted word.
            if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                return Err(unbalanced());
            }
        }
        words.push(word);
        while let [b' ' | b'\t' | b'\r' | b'\0', after @ ..] = rest {
            rest = after;
        }
    }
    Ok(words)
}

/// Reads up to the closing quote, and returns the rest after it.
fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digits = [*high, *low];
                word.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                rest = after;
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = after;
            }
            [other, after @ ..] => {
                word.push(*other);
                rest = after;
            }
        }
    }
}

/// Reads up to the closing quote, and returns the rest after it.
fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                rest = after;
            }
            [other, after @ ..] => {
                word.push(*other);
                rest = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::{bytes, rows};

    const LIMITS: Limits = Limits {
        words: 128 << 10,
        word_bytes: 4 << 20,
        request_bytes: 12 << 20,
        line_bytes: 64 << 10,
        is_before_login: false,
    };

    fn words(words: &[&str]) -> Request {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    fn all(bytes: &[u8], piece: usize) -> Result<Vec<Request>, ProtocolError> {
        let mut decoder = Decoder::new(LIMITS);
        let mut requests = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.buffer().extend_from_slice(piece);
            while let Some(request) = decoder.next_request()? {
                requests.push(request);
            }
        }
        Ok(requests)
    }

    #[test]
    fn pieces_of_any_size_give_the_same_requests() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n\r\n*0\r\nping 'a b'\r\n*-1\r\n*1\r\n$0\r\n\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\n\r\n\r\n\r\n";
        let expected = [
            words(&["GET", "a"]),
            words(&["ping", "a b"]),
            words(&[""]),
            words(&["SET", "a", "\r\n\r\n"]),
        ];
        for piece in 1..=bytes.len() {
            assert_eq!(all(bytes, piece).unwrap(), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_command_is_written_as_an_array_of_strings() {
        for row in rows("commands") {
            let words: Vec<_> = row["words"].as_array().unwrap().iter().map(bytes).collect();
            let expected = [b"before", &*bytes(&row["bytes"])].concat();
            let mut out = b"before".to_vec();
            write(&mut out, words.iter().map(Vec::as_slice));
            assert_eq!(out, expected, "{row}");
            // The client writes a call of a script word by word.
            out.truncate(b"before".len());
            begin(&mut out, words.len());
            for word in &words {
                match std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()) {
                    Some(number) => bulk_number(&mut out, number),
                    None => bulk(&mut out, word),
                }
            }
            assert_eq!(out, expected, "{row}");
        }
    }

    #[test]
    fn each_command_is_read_in_full_and_the_next_bytes_are_left() {
        for row in rows("commands") {
            let sent = bytes(&row["bytes"]);
            let words: Request = row["words"].as_array().unwrap().iter().map(bytes).collect();
            let mut decoder = Decoder::new(LIMITS);
            for byte in &sent {
                assert_eq!(decoder.next_request(), Ok(None), "{row}");
                decoder.buffer().push(*byte);
            }
            decoder.buffer().extend_from_slice(b"*1\r\n$4\r\nPING");
            assert_eq!(decoder.next_request(), Ok(Some(words.clone())), "{row}");
            assert_eq!(decoder.next_request(), Ok(None), "{row}");
            assert_eq!(
                all(&sent.repeat(2), usize::MAX),
                Ok(vec![words.clone(), words]),
                "{row}"
            );
        }
    }

    #[test]
    fn bytes_that_are_no_command_are_refused() {
        for row in rows("refused_commands") {
            let sent = bytes(&row["bytes"]);
            let read = all(&sent, usize::MAX).map_err(|error| error.to_string());
            match &row["store"]["value"] {
                serde_json::Value::Array(words) => {
                    assert_eq!(read, Ok(vec![words.iter().map(bytes).collect()]), "{row}");
                }
                _ => assert_eq!(read, Err(row["error"].as_str().unwrap().to_owned()), "{row}"),
            }
        }
    }

    #[test]
    fn a_line_that_is_no_request_is_refused() {
        for (bytes, why) in [
            (&b"get \"a\r\n"[..], "unbalanced quotes in request"),
            (b"get \"a\"b\r\n", "unbalanced quotes in request"),
            (&[b'x'; LIMITS.line_bytes + 1], "too big inline request"),
            (&[b'*'; LIMITS.line_bytes + 1], "too big inline request"),
        ] {
            assert_eq!(all(bytes, usize::MAX).unwrap_err(), ProtocolError(why.into()));
        }
    }

    #[test]
    fn before_the_login_the_errors_say_so() {
        let limits = Limits {
            words: 16,
            word_bytes: 16 << 10,
            is_before_login: true,
            ..LIMITS
        };
        for (bytes, why) in [
            (&b"*17\r\n"[..], "unauthenticated multibulk length"),
            (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
        ] {
            let mut decoder = Decoder::new(limits);
            decoder.buffer().extend_from_slice(bytes);
            assert_eq!(decoder.next_request().unwrap_err(), ProtocolError(why.into()));
        }
    }

    #[test]
    fn a_typed_line_may_have_quotes_and_escapes() {
        let line = br#"  set "a\x41\n\"" 'it\'s' plain  "#;
        assert_eq!(split_line(line).unwrap(), words(&["set", "aA\n\"", "it's", "plain"]));
    }
}
