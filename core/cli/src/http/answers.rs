//! Writes replies as Upstash does: `{"result": …}` or `{"error": …}`. On request, strings are in base64, or replies are
//! in the protocol of Redis clients.

use std::ops::ControlFlow;

use hyper::HeaderMap;
use steadlock_store::encode::{self, Protocol};
use steadlock_store::server::ExternalClient;
use steadlock_store::{Reply, StoreError};

/// The format of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON. Bytes that are not valid UTF-8 become U+FFFD.
    Json,
    /// JSON with strings in base64, except an error or a status `OK` that is the whole reply.
    Base64,
    /// The protocol of Redis clients.
    Resp2,
}

impl Format {
    /// Returns the format that a request asks for, or an error message.
    pub(super) fn requested(headers: &HeaderMap) -> Result<Self, &'static str> {
        let header = |name: &str| headers.get(name).map(|value| value.as_bytes());
        let is_base64 = match header("upstash-encoding") {
            None => false,
            Some(value) if value.eq_ignore_ascii_case(b"base64") => true,
            Some(_) => return Err("ERR the only Upstash-Encoding is base64"),
        };
        match header("upstash-response-format") {
            Some(value) if value.eq_ignore_ascii_case(b"resp2") && is_base64 => {
                Err("ERR Upstash-Encoding has no meaning in the format resp2")
            }
            Some(value) if value.eq_ignore_ascii_case(b"resp2") => Ok(Self::Resp2),
            Some(value) if !value.eq_ignore_ascii_case(b"json") => {
                Err("ERR the only Upstash-Response-Format are json and resp2")
            }
            _ if is_base64 => Ok(Self::Base64),
            _ => Ok(Self::Json),
        }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::Base64 => "application/json",
            Self::Resp2 => "application/octet-stream",
        }
    }
}

/// The text of a response, with a limit on its size.
pub(super) struct ResponseText {
    format: Format,
    bytes: Vec<u8>,
    replies: usize,
    /// Whether the text is a list of replies.
    is_list: bool,
}

/// The error of a text that would exceed its limit.
struct TooLarge;

impl ResponseText {
    /// Starts a text for one reply.
    pub(super) const fn one(format: Format) -> Self {
        Self {
            format,
            bytes: Vec::new(),
            replies: 0,
            is_list: false,
        }
    }

    /// Starts a text for several replies.
    pub(super) const fn list(format: Format) -> Self {
        Self {
            format,
            bytes: Vec::new(),
            replies: 0,
            is_list: true,
        }
    }

    /// Appends a reply. If the text would be too large, appends an error in its place, and returns `Break`.
    pub(super) fn push(&mut self, reply: &Reply) -> ControlFlow<()> {
        if self.is_list && self.format != Format::Resp2 {
            self.bytes.push(if self.replies == 0 { b'[' } else { b',' });
        }
        self.replies += 1;
        let before = self.bytes.len();
        if self.write(reply).is_ok() {
            return ControlFlow::Continue(());
        }
        self.bytes.truncate(before);
        // This error is appended even beyond the limit, because it is short.
        let _ = self.write(&Reply::Error(reply_too_large()));
        ControlFlow::Break(())
    }

    /// Returns the number of replies in the text.
    pub(super) const fn replies(&self) -> usize {
        self.replies
    }

    /// Returns the number of bytes in the text.
    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.is_list && self.format != Format::Resp2 {
            self.bytes.push(b']');
        }
        // The vector grew by doubling, and its whole capacity counts towards the memory limit.
        self.bytes.shrink_to_fit();
        self.bytes
    }

    fn write(&mut self, reply: &Reply) -> Result<(), TooLarge> {
        if self.format == Format::Resp2 {
            encode::reply(reply, Protocol::Resp2, &mut self.bytes);
            return if self.bytes.len() > ExternalClient::REPLY_BYTES {
                Err(TooLarge)
            } else {
                Ok(())
            };
        }
        match reply {
            Reply::Error(error) => {
                self.bytes.extend_from_slice(b"{\"error\":");
                self.text(&error.to_string());
            }
            Reply::Status(status) if status == "OK" => self.bytes.extend_from_slice(b"{\"result\":\"OK\""),
            reply => {
                self.bytes.extend_from_slice(b"{\"result\":");
                self.value(reply)?;
            }
        }
        self.bytes.push(b'}');
        Ok(())
    }

    fn value(&mut self, reply: &Reply) -> Result<(), TooLarge> {
        match reply {
            Reply::Nil | Reply::NilArray => self.bytes.extend_from_slice(b"null"),
            Reply::Int(number) => self.bytes.extend_from_slice(number.to_string().as_bytes()),
            Reply::Double(number) => return self.string(Reply::number_text(*number).as_bytes()),
            Reply::Bytes(bytes) => return self.string(bytes),
            Reply::Status(status) => return self.string(status.as_bytes()),
            // There is no form for an error inside an array, so it becomes a string.
            Reply::Error(error) => return self.string(error.to_string().as_bytes()),
            Reply::Array(items) | Reply::Set(items) => return self.array(items.iter()),
            Reply::Map(pairs) | Reply::Pairs(pairs) => {
                return self.array(pairs.iter().flat_map(|(first, second)| [first, second]));
            }
        }
        Ok(())
    }

    fn array<'a>(&mut self, items: impl Iterator<Item = &'a Reply>) -> Result<(), TooLarge> {
        self.bytes.push(b'[');
        for (before, item) in items.enumerate() {
            if before > 0 {
                self.bytes.push(b',');
            }
            self.value(item)?;
            self.check_size(0)?;
        }
        self.bytes.push(b']');
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        self.check_size(bytes.len())?;
        if self.format == Format::Base64 {
            self.bytes.push(b'"');
            base64(bytes, &mut self.bytes);
            self.bytes.push(b'"');
        } else {
            self.text(&String::from_utf8_lossy(bytes));
        }
        self.check_size(0)
    }

    fn text(&mut self, text: &str) {
        // Writing to a `Vec` never fails.
        let _ = serde_json::to_writer(&mut self.bytes, text);
    }

    const fn check_size(&self, more: usize) -> Result<(), TooLarge> {
        if self.bytes.len() + more > ExternalClient::REPLY_BYTES {
            return Err(TooLarge);
        }
        Ok(())
    }
}

/// Returns `{"error": …}`.
pub(super) fn error(text: &str) -> Vec<u8> {
    serde_json::json!({ "error": text }).to_string().into_bytes()
}

pub(super) fn reply_too_large() -> StoreError {
    StoreError::parse("ERR the reply is too large for this development server")
}

/// Appends the bytes in base64, with padding.
fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.reserve(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |place: usize| chunk.get(place).copied().map_or(0, u32::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place > chunk.len() { b'=' } else { letter });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply, format: Format) -> String {
        let mut text = ResponseText::one(format);
        let _ = text.push(reply);
        String::from_utf8(text.finish()).unwrap()
    }

    #[test]
    fn base64_is_standard_base64_with_padding() {
        for (bytes, expected) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfe\xfd", "//79"),
        ] {
            let mut out = Vec::new();
            base64(bytes, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn each_reply_has_a_form() {
        let bytes = |bytes: &[u8]| Reply::Bytes(bytes.to_vec());
        let nested = Reply::Array(vec![
            Reply::Int(-3),
            Reply::Nil,
            Reply::Array(vec![bytes(b"a\"\xff")]),
            Reply::OK,
            Reply::Error(StoreError::parse("ERR no")),
        ]);
        for (reply, json, in_base64) in [
            (Reply::OK, "{\"result\":\"OK\"}", "{\"result\":\"OK\"}"),
            (bytes(b"OK"), "{\"result\":\"OK\"}", "{\"result\":\"T0s=\"}"),
            (
                Reply::Status("PONG".into()),
                "{\"result\":\"PONG\"}",
                "{\"result\":\"UE9ORw==\"}",
            ),
            (Reply::NilArray, "{\"result\":null}", "{\"result\":null}"),
            (Reply::Double(1.5), "{\"result\":\"1.5\"}", "{\"result\":\"MS41\"}"),
            (
                Reply::Map(vec![(bytes(b"a"), Reply::Int(1))]),
                "{\"result\":[\"a\",1]}",
                "{\"result\":[\"YQ==\",1]}",
            ),
            (
                nested,
                "{\"result\":[-3,null,[\"a\\\"\u{fffd}\"],\"OK\",\"ERR no\"]}",
                "{\"result\":[-3,null,[\"YSL/\"],\"T0s=\",\"RVJSIG5v\"]}",
            ),
            (
                Reply::Error(StoreError::parse("WRONGTYPE \"x\"")),
                "{\"error\":\"WRONGTYPE \\\"x\\\"\"}",
                "{\"error\":\"WRONGTYPE \\\"x\\\"\"}",
            ),
        ] {
            assert_eq!(written(&reply, Format::Json), json);
            assert_eq!(written(&reply, Format::Base64), in_base64);
        }
        assert_eq!(written(&Reply::Int(1), Format::Resp2), ":1\r\n");
    }

    #[test]
    fn an_error_replaces_a_reply_that_makes_the_text_too_large() {
        // Each of these bytes takes six characters in JSON.
        let reply = Reply::Bytes(vec![1; ExternalClient::REPLY_BYTES / 5]);
        let mut text = ResponseText::list(Format::Json);
        assert!(text.push(&Reply::OK).is_continue());
        assert!(text.push(&reply).is_break());
        assert_eq!(text.replies(), 2);
        let text = String::from_utf8(text.finish()).unwrap();
        assert!(
            text.starts_with("[{\"result\":\"OK\"},{\"error\":\"ERR the reply is too large"),
            "{text}"
        );
        assert!(text.ends_with("}]"), "{text}");
    }
}
