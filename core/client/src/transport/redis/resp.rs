//! RESP, the wire format: commands out, replies in, one by one as they come.
//!
//! A reply is read in place from what has come so far. One that is not whole yet is
//! begun anew when more has come: replies of scripts are a few dozen bytes.

use std::fmt;

use steadlock_protocol::{CallError, Digits, Reply};

/// Something that a server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// What the oldest open command came to.
    Reply(Result<Reply, ServerError>),
    /// Nobody's reply: a message, or what became of a subscription.
    Push(Vec<Reply>),
}

/// A server's answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerError {
    /// The first word, such as `NOSCRIPT`.
    pub(super) code: String,
    /// The rest.
    pub(super) message: String,
}

/// What no server sends: nothing after it can be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The longest value that is read. A publisher on a channel chooses how long its message is.
const LONGEST: usize = 64 << 20;
/// Replies within replies; `HELLO` has three levels.
const DEEPEST: u32 = 8;

/// Writes a command behind what is in `out`.
pub(super) fn command<'a>(out: &mut Vec<u8>, parts: impl ExactSizeIterator<Item = &'a [u8]>) {
    header(out, b'*', parts.len());
    for part in parts {
        bulk(out, part);
    }
}

/// Begins a command of so many parts; each follows by [`bulk`].
pub(super) fn begin(out: &mut Vec<u8>, parts: usize) {
    header(out, b'*', parts);
}

/// One part of a command.
pub(super) fn bulk(out: &mut Vec<u8>, part: &[u8]) {
    header(out, b'$', part.len());
    out.extend_from_slice(part);
    out.extend_from_slice(b"\r\n");
}

/// One part that is a number.
pub(super) fn bulk_number(out: &mut Vec<u8>, number: usize) {
    bulk(out, Digits::of(number as u64).as_bytes());
}

fn header(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    out.extend_from_slice(Digits::of(number as u64).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Reads the first frame of what has come, and how many bytes it has; `None` if it is
/// not whole yet.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, Malformed> {
    let mut reader = Reader { bytes, at: 0 };
    match reader.frame() {
        Ok(frame) => Ok(Some((frame, reader.at))),
        Err(Stop::Incomplete) if bytes.len() < LONGEST => Ok(None),
        Err(_) => Err(Malformed),
    }
}

/// Why no value could be read.
enum Stop {
    Incomplete,
    Malformed,
}

type Value = Result<Reply, ServerError>;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn frame(&mut self) -> Result<Frame, Stop> {
        if self.bytes.first() != Some(&b'>') {
            return self.value(DEEPEST).map(Frame::Reply);
        }
        self.at += 1;
        let count = self.count()?;
        match self.values(count, DEEPEST)? {
            Ok(parts) => Ok(Frame::Push(parts)),
            Err(_) => Err(Stop::Malformed),
        }
    }

    fn value(&mut self, depth: u32) -> Result<Value, Stop> {
        let depth = depth.checked_sub(1).ok_or(Stop::Malformed)?;
        let kind = *self.bytes.get(self.at).ok_or(Stop::Incomplete)?;
        self.at += 1;
        Ok(Ok(match kind {
            b':' => Reply::Int(self.number()?),
            b'$' => match self.length()? {
                Some(length) => Reply::Bytes(self.exactly(length)?.to_vec()),
                None => Reply::Nil,
            },
            // Three letters of its form and a colon come before the text.
            b'=' => {
                let length = self.count()?;
                let text = self.exactly(length)?;
                Reply::Bytes(text.get(4..).ok_or(Stop::Malformed)?.to_vec())
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
                let count = self.count()?.checked_mul(2).ok_or(Stop::Malformed)?;
                return Ok(self.values(count, depth)?.map(Reply::Array));
            }
            b'+' | b',' | b'(' => Reply::Bytes(self.line()?.to_vec()),
            b'#' => Reply::Int(i64::from(self.line()? == b"t")),
            b'_' => {
                self.line()?;
                Reply::Nil
            }
            b'-' => return Ok(Err(ServerError::read(self.line()?))),
            b'!' => {
                let length = self.count()?;
                return Ok(Err(ServerError::read(self.exactly(length)?)));
            }
            // Something about the reply that follows.
            b'|' => {
                let count = self.count()?.checked_mul(2).ok_or(Stop::Malformed)?;
                let _ = self.values(count, depth)?;
                return self.value(depth);
            }
            _ => return Err(Stop::Malformed),
        }))
    }

    /// So many values; the first error of theirs, if there is one.
    fn values(&mut self, count: usize, depth: u32) -> Result<Result<Vec<Reply>, ServerError>, Stop> {
        // Each has three bytes at least: no more are promised than can be here.
        let mut values = Vec::with_capacity(count.min((self.bytes.len() - self.at) / 3));
        let mut error = None;
        for _ in 0..count {
            match self.value(depth)? {
                Ok(value) => values.push(value),
                Err(one) => error = error.or(Some(one)),
            }
        }
        Ok(error.map_or(Ok(values), Err))
    }

    /// Up to the end of the line, without it.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\r').ok_or(Stop::Incomplete)?;
        match rest.get(length + 1) {
            Some(b'\n') => {
                self.at += length + 2;
                Ok(&rest[..length])
            }
            Some(_) => Err(Stop::Malformed),
            None => Err(Stop::Incomplete),
        }
    }

    fn number(&mut self) -> Result<i64, Stop> {
        let line = self.line()?;
        let text = std::str::from_utf8(line).map_err(|_| Stop::Malformed)?;
        text.parse().map_err(|_| Stop::Malformed)
    }

    /// A length or a count; `None` for the old form of nothing.
    fn length(&mut self) -> Result<Option<usize>, Stop> {
        match self.number()? {
            -1 => Ok(None),
            number => match usize::try_from(number) {
                Ok(number) if number <= LONGEST => Ok(Some(number)),
                _ => Err(Stop::Malformed),
            },
        }
    }

    fn count(&mut self) -> Result<usize, Stop> {
        self.length()?.ok_or(Stop::Malformed)
    }

    /// So many bytes, and the end of their line.
    fn exactly(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let text = rest.get(..length).ok_or(Stop::Incomplete)?;
        match rest.get(length..length + 2) {
            Some(b"\r\n") => {
                self.at += length + 2;
                Ok(text)
            }
            Some(_) => Err(Stop::Malformed),
            None => Err(Stop::Incomplete),
        }
    }
}

impl ServerError {
    fn read(line: &[u8]) -> Self {
        let text = String::from_utf8_lossy(line);
        let (code, message) = text.split_once(' ').unwrap_or((&text, ""));
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }

    /// The error as the session knows it, alike from every version of a server.
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

/// A reply that is text.
pub(super) fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(bytes: &[u8]) -> Value {
        match decode(bytes) {
            Ok(Some((Frame::Reply(value), length))) => {
                assert_eq!(length, bytes.len(), "{}", String::from_utf8_lossy(bytes));
                value
            }
            other => panic!("{}: {other:?}", String::from_utf8_lossy(bytes)),
        }
    }

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.into())
    }

    const EVERY_KIND: [&str; 20] = [
        ":-7\r\n",
        "+OK\r\n",
        "$3\r\na\r\n\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "_\r\n",
        "#t\r\n",
        "#f\r\n",
        ",1.5\r\n",
        "(123456789012345678901234567890\r\n",
        "=7\r\ntxt:abc\r\n",
        "*2\r\n:1\r\n$16\r\n1234567890123456\r\n",
        "~1\r\n:1\r\n",
        "%1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n",
        "-NOSCRIPT No matching script.\r\n",
        "!9\r\nERR a\r\nbc\r\n",
        "*2\r\n-ERR no\r\n:1\r\n",
        "|1\r\n+ttl\r\n:3600\r\n:5\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\np\r\n",
    ];

    #[test]
    fn every_kind_of_value_is_read() {
        for (sent, expected) in EVERY_KIND.into_iter().zip([
            Reply::Int(-7),
            bytes("OK"),
            bytes("a\r\n"),
            bytes(""),
            Reply::Nil,
            Reply::Nil,
            Reply::Nil,
            Reply::Int(1),
            Reply::Int(0),
            bytes("1.5"),
            bytes("123456789012345678901234567890"),
            bytes("abc"),
            Reply::Array(vec![Reply::Int(1), bytes("1234567890123456")]),
            Reply::Array(vec![Reply::Int(1)]),
            Reply::Array(vec![bytes("role"), bytes("master")]),
        ]) {
            assert_eq!(reply(sent.as_bytes()), Ok(expected), "{sent}");
        }
        assert_eq!(
            reply(EVERY_KIND[18].as_bytes()),
            Ok(Reply::Int(5)),
            "what is said about it is passed over"
        );
        assert_eq!(
            decode(EVERY_KIND[19].as_bytes()),
            Ok(Some((
                Frame::Push(vec![bytes("message"), bytes("c"), bytes("p")]),
                EVERY_KIND[19].len()
            )))
        );
    }

    #[test]
    fn an_error_is_one_wherever_it_stands() {
        for (sent, code, message) in [
            (EVERY_KIND[15], "NOSCRIPT", "No matching script."),
            (EVERY_KIND[16], "ERR", "a\r\nbc"),
            (EVERY_KIND[17], "ERR", "no"),
            ("-ALONE\r\n", "ALONE", ""),
        ] {
            let error = reply(sent.as_bytes()).unwrap_err();
            assert_eq!((&*error.code, &*error.message), (code, message));
        }
    }

    #[test]
    fn what_is_not_whole_is_waited_for_and_what_follows_is_left() {
        for sent in EVERY_KIND {
            for length in 0..sent.len() {
                assert_eq!(decode(&sent.as_bytes()[..length]), Ok(None), "{sent} up to {length}");
            }
            let two = [sent, "+more"].concat();
            let whole = decode(two.as_bytes()).unwrap().expect("a frame");
            assert_eq!(whole.1, sent.len(), "{sent}");
        }
    }

    #[test]
    fn what_no_server_sends_ends_the_connection() {
        let deep = "*1\r\n".repeat(20) + ":1\r\n";
        for sent in [
            "HTTP/1.1 400 Bad Request\r\n",
            ":one\r\n",
            ":\r\n",
            "$-2\r\n\r\n",
            "$3\r\nabcd\r\n",
            "$99999999999\r\n",
            "*99999999999\r\n",
            "%9223372036854775807\r\n",
            "~-1\r\n",
            ">-1\r\n",
            ">1\r\n-ERR no\r\n",
            "=2\r\nab\r\n",
            "+a\rb\r\n",
            &deep,
        ] {
            assert_eq!(decode(sent.as_bytes()), Err(Malformed), "{sent}");
        }
    }

    #[test]
    fn a_command_is_written_as_an_array_of_strings() {
        let mut out = b"before".to_vec();
        command(&mut out, [b"SET".as_slice(), b"", b"a\r\nb"].into_iter());
        begin(&mut out, 2);
        bulk(&mut out, b"EVALSHA");
        bulk_number(&mut out, 10_203);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "before*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n*2\r\n$7\r\nEVALSHA\r\n$5\r\n10203\r\n"
        );
    }
}
