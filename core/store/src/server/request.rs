//! Decodes requests: arrays of strings, or lines as a human types them.

use std::fmt;

use crate::limits::server::{
    LINE_BYTES as MAX_LINE, LOGIN_WORD_BYTES, LOGIN_WORDS, READ_BYTES, REQUEST_BYTES, WORD_BYTES, WORDS,
};

/// The words of a request. The first one is the name of the command.
pub(super) type Request = Vec<Vec<u8>>;

/// The memory that a word takes beside its content.
const WORD_EXTRA: usize = 48;

/// The error for bytes that are no request. The connection closes after the error is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProtocolError(String);

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.0)
    }
}

/// Collects bytes and returns complete requests. Each byte is examined only once, even if the bytes arrive in small
/// pieces.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    buffer: Vec<u8>,
    /// The position of the first byte that has not been decoded.
    at: usize,
    /// How many bytes after `at` are known to have no line break.
    scanned: usize,
    partial: Option<Partial>,
    is_trusted: bool,
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
    /// Sets whether the client has logged in, or needs no password. The limits before the login do not apply to it
    /// then.
    pub(super) const fn set_trusted(&mut self, is_trusted: bool) {
        self.is_trusted = is_trusted;
    }

    /// Returns the buffer to which bytes must be appended.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
            // The memory of one huge request is not kept for ever.
            self.buffer.shrink_to(READ_BYTES);
        }
        &mut self.buffer
    }

    /// Frees the buffer if no part of a request has arrived. Returns whether that is the case.
    pub(super) fn rest(&mut self) -> bool {
        let left = self.buffer.len() - self.at;
        let is_empty = left == 0;
        if is_empty {
            self.buffer = Vec::new();
            self.at = 0;
        } else if left < READ_BYTES {
            // Many clients that begin a request and never finish it must not use much memory.
            self.buffer().shrink_to_fit();
        }
        is_empty && self.partial.is_none()
    }

    /// Returns the memory of incomplete requests, in bytes.
    pub(super) fn held(&self) -> usize {
        let buffer = match self.buffer.capacity() {
            // A buffer of this size has just been filled, and its contents are about to be decoded.
            capacity if capacity <= 2 * READ_BYTES => self.buffer.len() - self.at,
            capacity => capacity,
        };
        buffer + self.partial.as_ref().map_or(0, |partial| partial.bytes)
    }

    /// Returns the next complete request.
    pub(super) fn next(&mut self) -> Result<Option<Request>, ProtocolError> {
        loop {
            let request = if self.partial.is_some() {
                self.next_word()?
            } else {
                self.begin()?
            };
            match request {
                Step::NeedsMore => return Ok(None),
                Step::GoesOn => {}
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
        let most = if self.is_trusted { WORDS } else { LOGIN_WORDS };
        let missing = match number(&line[1..]) {
            Some(..=0) => return Ok(Step::Done(Vec::new())),
            Some(count) => usize::try_from(count).ok().filter(|count| *count <= most),
            None => None,
        };
        let Some(missing) = missing else {
            let whose = if self.is_trusted { "invalid" } else { "unauthenticated" };
            return Err(ProtocolError(format!("{whose} multibulk length")));
        };
        self.partial = Some(Partial {
            // Memory is reserved only for words that have arrived, not for the announced number.
            words: Vec::with_capacity(missing.min(16)),
            missing,
            bytes: 0,
            next: None,
        });
        Ok(Step::GoesOn)
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
            return Ok(Step::GoesOn);
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
            return Ok(Step::GoesOn);
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
        let most = if self.is_trusted { WORD_BYTES } else { LOGIN_WORD_BYTES };
        let length = number(&line[1..])
            .and_then(|length| usize::try_from(length).ok())
            .filter(|length| *length <= most);
        let (Some(length), Some(partial)) = (length, &mut self.partial) else {
            let whose = if self.is_trusted { "invalid" } else { "unauthenticated" };
            return Err(ProtocolError(format!("{whose} bulk length")));
        };
        partial.bytes += length + WORD_EXTRA;
        if partial.bytes > REQUEST_BYTES {
            return Err(ProtocolError("too big request".into()));
        }
        Ok(Some(length))
    }

    /// Returns the next line, without its break.
    fn line(&mut self) -> Result<Option<Vec<u8>>, ProtocolError> {
        let rest = &self.buffer[self.at..];
        let Some(end) = rest[self.scanned..].iter().position(|byte| *byte == b'\n') else {
            if rest.len() > MAX_LINE {
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
    GoesOn,
    Done(Request),
}

fn number(digits: &[u8]) -> Option<i64> {
    // `parse` would accept a plus sign, which no client sends.
    if digits.first() == Some(&b'+') || digits.len() > 20 {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
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

    fn trusted() -> Decoder {
        let mut decoder = Decoder::default();
        decoder.set_trusted(true);
        decoder
    }

    fn words(words: &[&str]) -> Request {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    fn all(bytes: &[u8], piece: usize) -> Result<Vec<Request>, ProtocolError> {
        let mut decoder = trusted();
        let mut requests = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.buffer().extend_from_slice(piece);
            while let Some(request) = decoder.next()? {
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
    fn each_command_is_read_whole_and_what_follows_is_left() {
        for row in rows("commands") {
            let sent = bytes(&row["bytes"]);
            let words: Request = row["words"].as_array().unwrap().iter().map(bytes).collect();
            let mut decoder = trusted();
            for byte in &sent {
                assert_eq!(decoder.next(), Ok(None), "{row}");
                decoder.buffer().push(*byte);
            }
            decoder.buffer().extend_from_slice(b"*1\r\n$4\r\nPING");
            assert_eq!(decoder.next(), Ok(Some(words.clone())), "{row}");
            assert_eq!(decoder.next(), Ok(None), "{row}");
            assert_eq!(
                all(&sent.repeat(2), usize::MAX),
                Ok(vec![words.clone(), words]),
                "{row}"
            );
        }
    }

    #[test]
    fn what_is_no_command_is_refused() {
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
            (&[b'x'; MAX_LINE + 1], "too big inline request"),
            (&[b'*'; MAX_LINE + 1], "too big inline request"),
        ] {
            assert_eq!(all(bytes, usize::MAX).unwrap_err(), ProtocolError(why.into()));
        }
    }

    #[test]
    fn a_stranger_may_send_little() {
        for (bytes, why) in [
            (&b"*17\r\n"[..], "unauthenticated multibulk length"),
            (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
        ] {
            let mut decoder = Decoder::default();
            decoder.buffer().extend_from_slice(bytes);
            assert_eq!(decoder.next().unwrap_err(), ProtocolError(why.into()));
        }
    }

    #[test]
    fn a_typed_line_may_have_quotes_and_escapes() {
        let line = br#"  set "a\x41\n\"" 'it\'s' plain  "#;
        assert_eq!(split_line(line).unwrap(), words(&["set", "aA\n\"", "it's", "plain"]));
    }
}
