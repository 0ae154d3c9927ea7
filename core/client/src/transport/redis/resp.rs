//! RESP, the wire format: writes commands, and reads replies one by one as they arrive.
//!
//! A reply is read in place from the bytes that have arrived, as replies of scripts have only a few dozen. If a reply
//! is incomplete, `Scan` searches for its end before it is read again.
//!
//! `Scan` finds the end of a frame that arrives in pieces. Each byte is examined once, whatever the pieces: a server may
//! send a long frame byte by byte.

use std::fmt;

use steadlock_collections::Digits;
use steadlock_protocol::{CallError, Reply, shown_words};

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The result of the oldest command without a reply.
    Reply(Result<Reply, ServerError>),
    /// A push, which answers no command: a message, or a change of a subscription.
    Push(Vec<Reply>),
}

/// An error that a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerError {
    /// The first word, such as `NOSCRIPT`.
    pub(super) code: String,
    /// The words after it.
    pub(super) message: String,
}

/// The reason why a frame, and everything after it, cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// No server sends this.
    Malformed,
    /// The frame has more bytes or values than the limits allow.
    TooLong,
    /// There is no memory for the frame.
    NoMemory,
}

/// The limits of a frame. A publisher chooses the length of its messages, and a server that has not accepted the login
/// may be any program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) bytes: usize,
    pub(super) values: usize,
}

impl Limits {
    /// The limits before the server has accepted the login.
    pub(super) const BEFORE_LOGIN: Self = Self {
        bytes: 64 << 10,
        values: 4 << 10,
    };
    /// The limits afterwards. The longest reply to the client's commands is that of `CLUSTER SLOTS`: 5 MB if no two
    /// consecutive slots belong to the same node.
    pub(super) const AFTER_LOGIN: Self = Self {
        bytes: 16 << 20,
        values: 1 << 20,
    };
}

/// The limit of replies within replies; `HELLO` has three levels.
const MAX_DEPTH: u32 = 8;

/// Appends a command to `out`.
pub(super) fn command<'a>(out: &mut Vec<u8>, parts: impl ExactSizeIterator<Item = &'a [u8]>) {
    header(out, b'*', parts.len());
    for part in parts {
        bulk(out, part);
    }
}

/// Begins a command with this many parts; each follows by [`bulk`].
pub(super) fn begin(out: &mut Vec<u8>, parts: usize) {
    header(out, b'*', parts);
}

/// Appends one part of a command.
pub(super) fn bulk(out: &mut Vec<u8>, part: &[u8]) {
    header(out, b'$', part.len());
    out.extend_from_slice(part);
    out.extend_from_slice(b"\r\n");
}

/// Appends one part that is a number.
pub(super) fn bulk_number(out: &mut Vec<u8>, number: usize) {
    bulk(out, Digits::of(number as u64).as_bytes());
}

fn header(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    out.extend_from_slice(Digits::of(number as u64).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Reads the first frame of the bytes, and returns its length, too. `None` if the frame is incomplete.
pub(super) fn decode(bytes: &[u8], limits: Limits) -> Result<Option<(Frame, usize)>, Unreadable> {
    let mut reader = Reader {
        bytes,
        at: 0,
        limits,
        values: 0,
    };
    match reader.frame() {
        Ok(frame) => Ok(Some((frame, reader.at))),
        Err(Stop::Incomplete) if bytes.len() < limits.bytes => Ok(None),
        Err(Stop::Incomplete) => Err(Unreadable::TooLong),
        Err(Stop::Unreadable(why)) => Err(why),
    }
}

/// Parses a length or a count; `None` for -1, the old form of nil.
#[inline]
pub(super) fn length(line: &[u8], limits: Limits) -> Result<Option<usize>, Unreadable> {
    match number(line).ok_or(Unreadable::Malformed)? {
        -1 => Ok(None),
        number => match usize::try_from(number) {
            Ok(number) if number <= limits.bytes => Ok(Some(number)),
            Ok(_) => Err(Unreadable::TooLong),
            Err(_) => Err(Unreadable::Malformed),
        },
    }
}

#[inline]
fn number(line: &[u8]) -> Option<i64> {
    let mut number = 0;
    // Most numbers have a few digits, which cannot overflow.
    if line.is_empty() || line.len() > 18 {
        return std::str::from_utf8(line).ok()?.parse().ok();
    }
    for digit in line {
        if !digit.is_ascii_digit() {
            return std::str::from_utf8(line).ok()?.parse().ok();
        }
        number = number * 10 + i64::from(digit - b'0');
    }
    Some(number)
}

/// The reason why no value could be read.
enum Stop {
    Incomplete,
    Unreadable(Unreadable),
}

const MALFORMED: Stop = Stop::Unreadable(Unreadable::Malformed);

type Value = Result<Reply, ServerError>;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    limits: Limits,
    /// The number of values that were read or announced.
    values: usize,
}

impl<'a> Reader<'a> {
    fn frame(&mut self) -> Result<Frame, Stop> {
        if self.bytes.first() != Some(&b'>') {
            return self.value(MAX_DEPTH).map(Frame::Reply);
        }
        self.at += 1;
        let count = self.count()?;
        match self.values(count, MAX_DEPTH)? {
            Ok(parts) => Ok(Frame::Push(parts)),
            Err(_) => Err(MALFORMED),
        }
    }

    fn value(&mut self, depth: u32) -> Result<Value, Stop> {
        let depth = depth.checked_sub(1).ok_or(MALFORMED)?;
        let kind = *self.bytes.get(self.at).ok_or(Stop::Incomplete)?;
        self.at += 1;
        Ok(Ok(match kind {
            b':' => Reply::Int(self.number()?),
            b'$' => match self.length()? {
                Some(length) => Reply::Bytes(copy(self.exactly(length)?)?),
                None => Reply::Nil,
            },
            // The text of a verbatim string begins with three letters for its format and a colon.
            b'=' => {
                let length = self.count()?;
                let text = self.exactly(length)?;
                Reply::Bytes(copy(text.get(4..).ok_or(MALFORMED)?)?)
            }
            b'*' => match self.length()? {
                Some(count) => return Ok(self.values(count, depth)?.map(Reply::Array)),
                None => Reply::Nil,
            },
            b'~' => {
                let count = self.count()?;
                return Ok(self.values(count, depth)?.map(Reply::Array));
            }
            b'%' => {
                let count = self.count()?.checked_mul(2).ok_or(MALFORMED)?;
                return Ok(self.values(count, depth)?.map(Reply::Array));
            }
            b'+' | b',' | b'(' => Reply::Bytes(copy(self.line()?)?),
            b'#' => Reply::Int(match self.line()? {
                b"t" => 1,
                b"f" => 0,
                _ => return Err(MALFORMED),
            }),
            b'_' => match self.line()? {
                b"" => Reply::Nil,
                _ => return Err(MALFORMED),
            },
            b'-' => return Ok(Err(ServerError::read(self.line()?))),
            b'!' => {
                let length = self.count()?;
                return Ok(Err(ServerError::read(self.exactly(length)?)));
            }
            // An attribute of the reply that follows. It is skipped.
            b'|' => {
                let count = self.count()?.checked_mul(2).ok_or(MALFORMED)?;
                let _ = self.values(count, depth)?;
                return self.value(depth);
            }
            _ => return Err(MALFORMED),
        }))
    }

    /// Reads this many values. Returns the first error among them, if there is one.
    fn values(&mut self, count: usize, depth: u32) -> Result<Result<Vec<Reply>, ServerError>, Stop> {
        self.values = self.values.saturating_add(count);
        if self.values > self.limits.values {
            return Err(Stop::Unreadable(Unreadable::TooLong));
        }
        // Each value has at least three bytes. A wrong count therefore reserves no more memory than the input
        // justifies.
        let mut values = with_room_for(count.min((self.bytes.len() - self.at) / 3))?;
        let mut error = None;
        for _ in 0..count {
            match self.value(depth)? {
                Ok(value) => values.push(value),
                Err(one) => error = error.or(Some(one)),
            }
        }
        Ok(error.map_or(Ok(values), Err))
    }

    /// Reads to the end of the line. Returns the line without its end.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\r').ok_or(Stop::Incomplete)?;
        match rest.get(length + 1) {
            Some(b'\n') => {
                self.at += length + 2;
                Ok(&rest[..length])
            }
            Some(_) => Err(MALFORMED),
            None => Err(Stop::Incomplete),
        }
    }

    fn number(&mut self) -> Result<i64, Stop> {
        number(self.line()?).ok_or(MALFORMED)
    }

    fn length(&mut self) -> Result<Option<usize>, Stop> {
        length(self.line()?, self.limits).map_err(Stop::Unreadable)
    }

    fn count(&mut self) -> Result<usize, Stop> {
        self.length()?.ok_or(MALFORMED)
    }

    /// Reads this many bytes and the end of their line.
    fn exactly(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let text = rest.get(..length).ok_or(Stop::Incomplete)?;
        match rest.get(length..length + 2) {
            Some(b"\r\n") => {
                self.at += length + 2;
                Ok(text)
            }
            Some(_) => Err(MALFORMED),
            None => Err(Stop::Incomplete),
        }
    }
}

fn copy(bytes: &[u8]) -> Result<Vec<u8>, Stop> {
    if bytes.len() <= SMALL {
        return Ok(bytes.to_vec());
    }
    let mut copy = with_room_for(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Reserves memory. A failure ends the connection, not the process. Small allocations are assumed to succeed.
fn with_room_for<T>(count: usize) -> Result<Vec<T>, Stop> {
    if count <= SMALL {
        return Ok(Vec::with_capacity(count));
    }
    let mut values = Vec::new();
    let reserved = values.try_reserve_exact(count);
    reserved.map_err(|_| Stop::Unreadable(Unreadable::NoMemory))?;
    Ok(values)
}

const SMALL: usize = 1_024;

impl ServerError {
    fn read(line: &[u8]) -> Self {
        let text = shown_words(line);
        let (code, message) = text.split_once(' ').unwrap_or((&text, ""));
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }

    /// Returns the error in the form that the session uses, which is the same for all server versions.
    pub(super) fn to_call_error(&self) -> CallError {
        CallError::server(&self.code, &self.message)
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = if self.message.is_empty() { "" } else { " " };
        write!(f, "{}{gap}{}", self.code, self.message)
    }
}

/// Returns a reply that is text.
pub(super) fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// The search for the end of a frame, which continues where it stopped.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The start of the next value. Beyond the bytes that have arrived while a long value is incomplete.
    at: usize,
    /// The number of bytes of that value that are known to contain no end of a line.
    searched: usize,
    /// The number of values that have begun, and the number of those still to come.
    found: usize,
    missing: usize,
    #[cfg(test)]
    steps: usize,
}

impl Scan {
    /// Whether `bytes` begin with a whole frame. They are the bytes of the previous call, and more.
    pub(super) fn is_whole(&mut self, bytes: &[u8], limits: Limits) -> Result<bool, Unreadable> {
        while self.found == 0 || self.missing > 0 {
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
        self.found += 1;
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
        // The limit is for the values inside of the frame, as in `Reader::values`.
        let inside = (self.found - 1).saturating_add(self.missing);
        if inside > limits.values {
            return Err(Unreadable::TooLong);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;
    use crate::vectors::{bytes, rows};

    /// Returns the bytes of a reply in each version of the protocol that has it.
    fn sent(row: &Json) -> Vec<Vec<u8>> {
        let versions = ["bytes", "resp2", "resp3"].map(|version| &row[version]);
        let sent: Vec<_> = versions
            .into_iter()
            .filter(|text| text.is_string())
            .map(bytes)
            .collect();
        assert!(!sent.is_empty(), "{row}");
        sent
    }

    /// Returns what the client makes of a value, which is the same in both versions of the protocol.
    fn nearest(value: &Json) -> Value {
        let (kind, of) = value.as_object().unwrap().iter().next().unwrap();
        Ok(match &**kind {
            "status" | "bytes" | "double" | "big number" | "verbatim" => Reply::Bytes(bytes(of)),
            "int" => Reply::Int(of.as_str().unwrap().parse().unwrap()),
            "boolean" => Reply::Int(i64::from(of.as_bool().unwrap())),
            "nil" => Reply::Nil,
            "array" | "set" => Reply::Array(all(of)),
            "map" => Reply::Array(of.as_array().unwrap().iter().flat_map(all).collect()),
            "described" => return nearest(of),
            "error" | "bulk error" => {
                let text = of.as_str().unwrap().replace('\r', r"\r").replace('\n', r"\n");
                let (code, message) = text.split_once(' ').unwrap_or((&text, ""));
                return Err(ServerError {
                    code: code.into(),
                    message: message.into(),
                });
            }
            other => panic!("{other} is no type"),
        })
    }

    fn all(values: &Json) -> Vec<Reply> {
        values
            .as_array()
            .unwrap()
            .iter()
            .map(|value| nearest(value).unwrap())
            .collect()
    }

    /// Returns the frame of a row, which begins with these bytes.
    fn frame(row: &Json, sent: &[u8]) -> Frame {
        let value = row.pointer("/client/value").unwrap_or_else(|| &row["value"]);
        match &value["push"] {
            Json::Null => Frame::Reply(nearest(value)),
            parts if sent[0] == b'>' => Frame::Push(all(parts)),
            parts => Frame::Reply(Ok(Reply::Array(all(parts)))),
        }
    }

    #[test]
    fn each_reply_is_read_whole_and_what_follows_is_left() {
        for row in rows("replies") {
            for sent in sent(&row) {
                for length in 0..sent.len() {
                    assert_eq!(
                        decode(&sent[..length], Limits::AFTER_LOGIN),
                        Ok(None),
                        "{row} up to {length}"
                    );
                }
                let expected = Ok(Some((frame(&row, &sent), sent.len())));
                assert_eq!(decode(&sent, Limits::AFTER_LOGIN), expected, "{row}");
                let two = [&sent, b"+more".as_slice()].concat();
                assert_eq!(decode(&two, Limits::AFTER_LOGIN), expected, "{row}");
            }
        }
    }

    #[test]
    fn the_beginning_of_a_reply_is_waited_for() {
        for row in rows("incomplete") {
            let sent = bytes(&row["bytes"]);
            assert_eq!(decode(&sent, Limits::AFTER_LOGIN), Ok(None), "{row}");
            assert_eq!(Scan::default().is_whole(&sent, Limits::AFTER_LOGIN), Ok(false), "{row}");
        }
    }

    #[test]
    fn what_no_server_sends_ends_the_connection() {
        for row in rows("refused") {
            let sent = bytes(&row["bytes"]);
            let error = match row["error"].as_str().unwrap() {
                "malformed" => Unreadable::Malformed,
                "too long" => Unreadable::TooLong,
                other => panic!("{other} is no error"),
            };
            let expected = match row["client"]["value"] {
                Json::Null => Err(error),
                _ => Ok(Some((frame(&row, &sent), sent.len()))),
            };
            assert_eq!(decode(&sent, Limits::AFTER_LOGIN), expected, "{row}");
            if error == Unreadable::TooLong {
                assert_eq!(
                    Scan::default().is_whole(&sent, Limits::AFTER_LOGIN),
                    Err(error),
                    "{row}"
                );
            }
        }
    }

    #[test]
    fn a_command_is_written_as_an_array_of_strings() {
        for row in rows("commands") {
            let words: Vec<_> = row["words"].as_array().unwrap().iter().map(bytes).collect();
            let expected = [b"before", &*bytes(&row["bytes"])].concat();
            let mut out = b"before".to_vec();
            command(&mut out, words.iter().map(Vec::as_slice));
            assert_eq!(out, expected, "{row}");
            // Scripts are written word by word.
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
    fn the_end_of_a_frame_is_found_whatever_the_pieces() {
        for sent in rows("replies").iter().flat_map(sent) {
            let shown = String::from_utf8_lossy(&sent);
            let two = [&sent, b"+more\r\n".as_slice()].concat();
            for piece in 1..=sent.len() {
                let mut scan = Scan::default();
                for come in (piece..two.len()).step_by(piece) {
                    let is_whole = scan.is_whole(&two[..come], Limits::AFTER_LOGIN);
                    assert_eq!(is_whole, Ok(come >= sent.len()), "{shown} up to {come}");
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
            assert_eq!(scan.is_whole(&sent.as_bytes()[..come], Limits::AFTER_LOGIN), Ok(false));
        }
        assert_eq!(scan.is_whole(sent.as_bytes(), Limits::AFTER_LOGIN), Ok(true));
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
        let many = format!("*{}\r\n", Limits::AFTER_LOGIN.values + 1);
        let nested = format!("*2\r\n*{0}\r\n{1}*{0}\r\n", 600_000, ":1\r\n".repeat(600_000));
        for sent in [&many, &nested] {
            let start: String = sent.chars().take(30).collect();
            let decoded = decode(sent.as_bytes(), Limits::AFTER_LOGIN);
            assert_eq!(decoded, Err(Unreadable::TooLong), "{start}");
            let scanned = Scan::default().is_whole(sent.as_bytes(), Limits::AFTER_LOGIN);
            assert_eq!(scanned, Err(Unreadable::TooLong), "{start}");
        }
        let message = format!("${}\r\n", Limits::BEFORE_LOGIN.bytes + 1);
        assert_eq!(
            decode(message.as_bytes(), Limits::BEFORE_LOGIN),
            Err(Unreadable::TooLong)
        );
        assert_eq!(decode(message.as_bytes(), Limits::AFTER_LOGIN), Ok(None));
        let line = "+".repeat(Limits::BEFORE_LOGIN.bytes);
        assert_eq!(decode(line.as_bytes(), Limits::BEFORE_LOGIN), Err(Unreadable::TooLong));
        let scanned = Scan::default().is_whole(line.as_bytes(), Limits::BEFORE_LOGIN);
        assert_eq!(scanned, Err(Unreadable::TooLong));
    }

    #[test]
    fn the_most_that_is_read_takes_no_more_memory_than_a_hundred_megabytes() {
        // The costliest frame: each value has an allocation of its own, of the smallest size.
        let allocated = 32;
        let costs = Limits::AFTER_LOGIN.values * (size_of::<Reply>() + allocated);
        // The read buffer grows by doubling.
        assert!(costs + 2 * Limits::AFTER_LOGIN.bytes <= 100 << 20, "{costs}");
    }
}
