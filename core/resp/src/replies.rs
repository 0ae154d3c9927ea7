//! Replies, which a server sends and a client reads.
//!
//! A reply is read in place from the bytes that have arrived. Most replies are a few dozen bytes, and arrive whole. If
//! a reply is incomplete, `Scan` searches for its end before it is read again. `Scan` examines each byte once, even if
//! the server sends a long reply byte by byte.

use std::fmt;

use steadlock_protocol::{CallError, Reply, shown_words};

use crate::parts::{bulk, header, number};

/// The version of the protocol on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2.
    Resp2,
    /// RESP3.
    Resp3,
}

/// Writes replies. For RESP2, a type that only RESP3 has becomes the nearest type. After the header of several values,
/// the caller writes each of them.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    is_resp3: bool,
}

impl<'a> Writer<'a> {
    /// Makes a writer that appends to these bytes.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self {
            out,
            is_resp3: protocol == Protocol::Resp3,
        }
    }

    /// Appends nil: no value.
    pub fn nil(&mut self) {
        self.out
            .extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Appends nil in place of an array.
    pub fn nil_array(&mut self) {
        self.out
            .extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// Appends an integer.
    pub fn int(&mut self, number: i64) {
        self.line(b':', number.to_string().as_bytes());
    }

    /// Appends a floating-point number, in the digits that the server chose.
    pub fn double(&mut self, digits: &str) {
        if self.is_resp3 {
            self.line(b',', digits.as_bytes());
        } else {
            self.bytes(digits.as_bytes());
        }
    }

    /// Appends a string of bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        bulk(self.out, bytes);
    }

    /// Appends a status, such as `OK`.
    pub fn status(&mut self, status: &str) {
        self.line(b'+', status.as_bytes());
    }

    /// Appends an error.
    pub fn error(&mut self, error: &str) {
        self.line(b'-', error.as_bytes());
    }

    /// Appends the header of an array.
    pub fn array(&mut self, count: usize) {
        header(self.out, b'*', count);
    }

    /// Appends the header of a set, an array in RESP2.
    pub fn set(&mut self, count: usize) {
        header(self.out, if self.is_resp3 { b'~' } else { b'*' }, count);
    }

    /// Appends the header of a map, an array of keys and values in RESP2.
    pub fn map(&mut self, pairs: usize) {
        if self.is_resp3 {
            header(self.out, b'%', pairs);
        } else {
            self.array(pairs * 2);
        }
    }

    /// Appends the header of an array of pairs, a flat array in RESP2. Each pair begins with [`Self::pair`].
    pub fn pairs(&mut self, pairs: usize) {
        self.array(if self.is_resp3 { pairs } else { pairs * 2 });
    }

    /// Appends the header of one pair, which has two values.
    pub fn pair(&mut self) {
        if self.is_resp3 {
            self.array(2);
        }
    }

    /// Appends the header of a push, which answers no command; an array in RESP2.
    pub fn push(&mut self, count: usize) {
        header(self.out, if self.is_resp3 { b'>' } else { b'*' }, count);
    }

    /// Appends a published message.
    pub fn message(&mut self, channel: &[u8], payload: &[u8]) {
        self.push(3);
        self.bytes(b"message");
        self.bytes(channel);
        self.bytes(payload);
    }

    /// Appends one line. Line breaks in the text are replaced, because they would end the reply early.
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend(text.iter().map(|byte| match byte {
            b'\r' | b'\n' => b' ',
            other => *other,
        }));
        self.out.extend_from_slice(b"\r\n");
    }
}

/// A reply or a push of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The reply to the oldest command that has none yet.
    Reply(Result<Reply, ServerError>),
    /// A push, which answers no command: a message, or a change of a subscription.
    Push(Vec<Reply>),
}

/// An error reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The first word, such as `NOSCRIPT`.
    pub code: String,
    /// The words after it.
    pub message: String,
}

/// The reason why a frame, and everything after it, cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// No server sends this.
    Malformed,
    /// The frame has more bytes or values than the limits allow.
    TooLong,
    /// There is no memory for the frame.
    NoMemory,
}

/// The limits of a frame. They exist because a publisher chooses the length of its messages, and because a server that
/// has not accepted the login may be any program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the frame.
    pub bytes: usize,
    /// Values in the frame, at all levels.
    pub values: usize,
}

impl Limits {
    /// The limits before the server has accepted the login.
    pub const BEFORE_LOGIN: Self = Self {
        bytes: 64 << 10,
        values: 4 << 10,
    };
    /// The limits afterwards. The longest reply to the client's commands is that of `CLUSTER SLOTS`: 5 MB if no two
    /// consecutive slots belong to the same node.
    pub const AFTER_LOGIN: Self = Self {
        bytes: 16 << 20,
        values: 1 << 20,
    };
}

/// How deep replies may be nested. The reply to `HELLO` has three levels.
const MAX_DEPTH: u32 = 8;

/// The first frame of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The frame.
    pub frame: Frame,
    /// The number of bytes of the frame.
    pub length: usize,
}

/// Reads the first frame of the bytes. `None` if the frame is incomplete.
///
/// # Errors
///
/// [`Unreadable`] if no frame begins like this, if the frame is longer than `limits`, or if there is no memory for it.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<Option<Decoded>, Unreadable> {
    let mut reader = Reader {
        bytes,
        at: 0,
        limits,
        values: 0,
    };
    match reader.frame() {
        Ok(frame) => Ok(Some(Decoded {
            frame,
            length: reader.at,
        })),
        Err(Stop::Incomplete) if bytes.len() < limits.bytes => Ok(None),
        Err(Stop::Incomplete) => Err(Unreadable::TooLong),
        Err(Stop::Unreadable(why)) => Err(why),
    }
}

/// Parses a length or a count; `None` for -1, the old form of nil.
#[inline]
fn length(line: &[u8], limits: Limits) -> Result<Option<usize>, Unreadable> {
    match number(line).ok_or(Unreadable::Malformed)? {
        -1 => Ok(None),
        number => match usize::try_from(number) {
            Ok(number) if number <= limits.bytes => Ok(Some(number)),
            Ok(_) => Err(Unreadable::TooLong),
            Err(_) => Err(Unreadable::Malformed),
        },
    }
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
        let mut values = with_capacity(count.min((self.bytes.len() - self.at) / 3))?;
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
    let mut copy = with_capacity(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Reserves memory. A failure ends the connection, not the process. Small allocations are assumed to succeed.
fn with_capacity<T>(count: usize) -> Result<Vec<T>, Stop> {
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
    pub fn to_call_error(&self) -> CallError {
        CallError::server(&self.code, &self.message)
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = if self.message.is_empty() { "" } else { " " };
        write!(f, "{}{gap}{}", self.code, self.message)
    }
}

/// Returns the text of a reply; `None` if it is not text.
pub fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// The search for the end of a frame, which continues where it stopped.
#[derive(Debug, Default)]
pub struct Scan {
    /// The start of the next value. While the value before it is incomplete, this is beyond the bytes that have
    /// arrived.
    at: usize,
    /// The number of bytes of the next value that are known to contain no end of a line.
    searched: usize,
    /// The number of values that have begun, and the number of values that must still follow.
    found: usize,
    missing: usize,
    #[cfg(test)]
    steps: usize,
}

impl Scan {
    /// Returns whether `bytes` begin with a complete frame. They must begin with the bytes of the previous call.
    pub fn is_complete(&mut self, bytes: &[u8], limits: Limits) -> Result<bool, Unreadable> {
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

    /// Steps over one value, or over the header of one that contains others. Returns false if its first line has not
    /// arrived.
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
            // After the pairs of the attribute, the value that it describes follows.
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

    /// Returns the value as a client reads it, which is the same in both versions of the protocol.
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

    /// Returns the frame that a client must read from these bytes of a row.
    fn frame(row: &Json, sent: &[u8]) -> Frame {
        let value = row.pointer("/client/value").unwrap_or_else(|| &row["value"]);
        match &value["push"] {
            Json::Null => Frame::Reply(nearest(value)),
            parts if sent[0] == b'>' => Frame::Push(all(parts)),
            parts => Frame::Reply(Ok(Reply::Array(all(parts)))),
        }
    }

    /// Writes a value. Returns false for a type that the writer does not have.
    fn write(value: &Json, writer: &mut Writer<'_>) -> bool {
        let (kind, of) = value.as_object().unwrap().iter().next().unwrap();
        match &**kind {
            "nil" if of == "array" => writer.nil_array(),
            "nil" => writer.nil(),
            "int" => writer.int(of.as_str().unwrap().parse().unwrap()),
            "double" => writer.double(of.as_str().unwrap()),
            "bytes" => writer.bytes(&bytes(of)),
            "status" => writer.status(of.as_str().unwrap()),
            "error" => writer.error(of.as_str().unwrap()),
            "map" => {
                let pairs = of.as_array().unwrap();
                writer.map(pairs.len());
                return pairs
                    .iter()
                    .all(|pair| write(&pair[0], writer) && write(&pair[1], writer));
            }
            "array" | "set" | "push" => {
                let values = of.as_array().unwrap();
                match &**kind {
                    "array" => writer.array(values.len()),
                    "set" => writer.set(values.len()),
                    _ => writer.push(values.len()),
                }
                return values.iter().all(|value| write(value, writer));
            }
            _ => return false,
        }
        true
    }

    #[test]
    fn each_reply_is_written_in_both_versions() {
        let mut written = 0;
        for row in rows("replies") {
            for (name, protocol) in [("resp2", Protocol::Resp2), ("resp3", Protocol::Resp3)] {
                let mut out = Vec::new();
                if write(&row["value"], &mut Writer::new(&mut out, protocol)) {
                    let expected = row.get(name).or_else(|| row.get("bytes"));
                    assert_eq!(out, bytes(expected.unwrap()), "{row}");
                    written += 1;
                }
            }
        }
        assert!(written > 50, "{written}");
    }

    #[test]
    fn an_error_has_no_line_break_inside() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut out = Vec::new();
            Writer::new(&mut out, protocol).error("ERR a\r\nb");
            assert_eq!(out, b"-ERR a  b\r\n");
        }
    }

    #[test]
    fn each_reply_is_read_in_full_and_the_next_bytes_are_left() {
        for row in rows("replies") {
            for sent in sent(&row) {
                for length in 0..sent.len() {
                    assert_eq!(
                        decode(&sent[..length], Limits::AFTER_LOGIN),
                        Ok(None),
                        "{row} up to {length}"
                    );
                }
                let expected = Ok(Some(Decoded {
                    frame: frame(&row, &sent),
                    length: sent.len(),
                }));
                assert_eq!(decode(&sent, Limits::AFTER_LOGIN), expected, "{row}");
                let two = [&sent, b"+more".as_slice()].concat();
                assert_eq!(decode(&two, Limits::AFTER_LOGIN), expected, "{row}");
            }
        }
    }

    #[test]
    fn an_incomplete_reply_is_no_error() {
        for row in rows("incomplete") {
            let sent = bytes(&row["bytes"]);
            assert_eq!(decode(&sent, Limits::AFTER_LOGIN), Ok(None), "{row}");
            assert_eq!(
                Scan::default().is_complete(&sent, Limits::AFTER_LOGIN),
                Ok(false),
                "{row}"
            );
        }
    }

    #[test]
    fn bytes_that_no_server_sends_are_refused() {
        for row in rows("refused") {
            let sent = bytes(&row["bytes"]);
            let error = match row["error"].as_str().unwrap() {
                "malformed" => Unreadable::Malformed,
                "too long" => Unreadable::TooLong,
                other => panic!("{other} is no error"),
            };
            let expected = match row["client"]["value"] {
                Json::Null => Err(error),
                _ => Ok(Some(Decoded {
                    frame: frame(&row, &sent),
                    length: sent.len(),
                })),
            };
            assert_eq!(decode(&sent, Limits::AFTER_LOGIN), expected, "{row}");
            if error == Unreadable::TooLong {
                assert_eq!(
                    Scan::default().is_complete(&sent, Limits::AFTER_LOGIN),
                    Err(error),
                    "{row}"
                );
            }
        }
    }

    #[test]
    fn a_scan_finds_the_end_of_a_frame_that_arrives_in_pieces() {
        for sent in rows("replies").iter().flat_map(sent) {
            let shown = String::from_utf8_lossy(&sent);
            let two = [&sent, b"+more\r\n".as_slice()].concat();
            for piece in 1..=sent.len() {
                let mut scan = Scan::default();
                for arrived in (piece..two.len()).step_by(piece) {
                    let is_complete = scan.is_complete(&two[..arrived], Limits::AFTER_LOGIN);
                    assert_eq!(is_complete, Ok(arrived >= sent.len()), "{shown} up to {arrived}");
                }
            }
        }
    }

    #[test]
    fn a_scan_examines_each_byte_once() {
        let inner = format!("*100\r\n{}", "$1\r\na\r\n".repeat(100));
        let sent = format!("*1000\r\n{}", inner.repeat(1_000));
        let mut scan = Scan::default();
        for arrived in (1..sent.len()).step_by(777) {
            assert_eq!(
                scan.is_complete(&sent.as_bytes()[..arrived], Limits::AFTER_LOGIN),
                Ok(false)
            );
        }
        assert_eq!(scan.is_complete(sent.as_bytes(), Limits::AFTER_LOGIN), Ok(true));
        let pieces = sent.len() / 777 + 2;
        assert!(
            scan.steps <= sent.len() + pieces,
            "{} steps for {} bytes",
            scan.steps,
            sent.len()
        );
    }

    #[test]
    fn a_frame_above_the_limits_is_refused_before_it_arrives() {
        let many = format!("*{}\r\n", Limits::AFTER_LOGIN.values + 1);
        let nested = format!("*2\r\n*{0}\r\n{1}*{0}\r\n", 600_000, ":1\r\n".repeat(600_000));
        for sent in [&many, &nested] {
            let start: String = sent.chars().take(30).collect();
            let decoded = decode(sent.as_bytes(), Limits::AFTER_LOGIN);
            assert_eq!(decoded, Err(Unreadable::TooLong), "{start}");
            let scanned = Scan::default().is_complete(sent.as_bytes(), Limits::AFTER_LOGIN);
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
        let scanned = Scan::default().is_complete(line.as_bytes(), Limits::BEFORE_LOGIN);
        assert_eq!(scanned, Err(Unreadable::TooLong));
    }

    #[test]
    fn the_largest_frame_takes_at_most_100_mb() {
        // The costliest frame: each value has an allocation of its own, of the smallest size.
        let allocated = 32;
        let costs = Limits::AFTER_LOGIN.values * (size_of::<Reply>() + allocated);
        // The read buffer grows by doubling.
        assert!(costs + 2 * Limits::AFTER_LOGIN.bytes <= 100 << 20, "{costs}");
    }
}
