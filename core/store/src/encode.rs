//! Encodes replies as a server sends them, in RESP.

use crate::float;
use crate::reply::Reply;

/// The version of the protocol on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2.
    Resp2,
    /// RESP3.
    Resp3,
}

/// Appends a reply.
pub fn reply(reply: &Reply, protocol: Protocol, out: &mut Vec<u8>) {
    let is_resp3 = protocol == Protocol::Resp3;
    match reply {
        Reply::Nil | Reply::NilArray if is_resp3 => out.extend_from_slice(b"_\r\n"),
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
        Reply::Int(number) => line(b':', number.to_string().as_bytes(), out),
        Reply::Double(number) if is_resp3 => line(b',', float::format(*number).as_bytes(), out),
        Reply::Double(number) => bulk(float::format(*number).as_bytes(), out),
        Reply::Bytes(bytes) => bulk(bytes, out),
        Reply::Status(status) => line(b'+', status.as_bytes(), out),
        Reply::Error(error) => line(b'-', error.to_string().as_bytes(), out),
        Reply::Array(items) => list(b'*', items, protocol, out),
        Reply::Set(items) => list(if is_resp3 { b'~' } else { b'*' }, items, protocol, out),
        Reply::Map(entries) => {
            let (kind, length) = if is_resp3 {
                (b'%', entries.len())
            } else {
                (b'*', entries.len() * 2)
            };
            header(kind, length, out);
            for (key, value) in entries {
                self::reply(key, protocol, out);
                self::reply(value, protocol, out);
            }
        }
        Reply::Pairs(pairs) => {
            header(b'*', if is_resp3 { pairs.len() } else { pairs.len() * 2 }, out);
            for (first, second) in pairs {
                if is_resp3 {
                    header(b'*', 2, out);
                }
                self::reply(first, protocol, out);
                self::reply(second, protocol, out);
            }
        }
    }
}

/// Appends data that the client has not requested: a push in RESP3, an array in RESP2.
pub fn push(items: &[Reply], protocol: Protocol, out: &mut Vec<u8>) {
    let kind = match protocol {
        Protocol::Resp2 => b'*',
        Protocol::Resp3 => b'>',
    };
    list(kind, items, protocol, out);
}

/// Appends a published message.
pub fn message(channel: &[u8], payload: &[u8], protocol: Protocol, out: &mut Vec<u8>) {
    out.push(match protocol {
        Protocol::Resp2 => b'*',
        Protocol::Resp3 => b'>',
    });
    out.extend_from_slice(b"3\r\n$7\r\nmessage\r\n");
    bulk(channel, out);
    bulk(payload, out);
}

fn list(kind: u8, items: &[Reply], protocol: Protocol, out: &mut Vec<u8>) {
    header(kind, items.len(), out);
    for item in items {
        reply(item, protocol, out);
    }
}

fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    header(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn header(kind: u8, length: usize, out: &mut Vec<u8>) {
    line(kind, length.to_string().as_bytes(), out);
}

/// Appends one line. Line breaks in the text are replaced, because they would end the reply early.
fn line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend(text.iter().map(|byte| match byte {
        b'\r' | b'\n' => b' ',
        other => *other,
    }));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;
    use crate::reply::StoreError;
    use crate::vectors::{bytes, rows};

    fn encoded(what: &Reply, protocol: Protocol) -> String {
        let mut out = Vec::new();
        reply(what, protocol, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// Returns the reply that has this value. `None` if the store has no such type.
    fn reply_of(value: &Json) -> Option<Reply> {
        let (kind, of) = value.as_object().unwrap().iter().next().unwrap();
        Some(match &**kind {
            "nil" if of == "array" => Reply::NilArray,
            "nil" => Reply::Nil,
            "int" => Reply::Int(of.as_str().unwrap().parse().unwrap()),
            "double" => Reply::Double(of.as_str().unwrap().parse().unwrap()),
            "bytes" => Reply::Bytes(bytes(of)),
            "status" => Reply::Status(of.as_str().unwrap().to_owned().into()),
            "error" => Reply::Error(StoreError::parse(of.as_str().unwrap())),
            "array" => Reply::Array(all(of)?),
            "set" => Reply::Set(all(of)?),
            "map" => {
                let pairs = of.as_array().unwrap().iter();
                let pairs = pairs.map(|pair| Some((reply_of(&pair[0])?, reply_of(&pair[1])?)));
                Reply::Map(pairs.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    fn all(values: &Json) -> Option<Vec<Reply>> {
        values.as_array().unwrap().iter().map(reply_of).collect()
    }

    #[test]
    fn each_reply_is_written_in_both_versions() {
        let mut written = 0;
        for row in rows("replies") {
            for (version, protocol) in [("resp2", Protocol::Resp2), ("resp3", Protocol::Resp3)] {
                let expected = row.get(version).or_else(|| row.get("bytes"));
                let mut out = Vec::new();
                if let Some(what) = reply_of(&row["value"]) {
                    reply(&what, protocol, &mut out);
                } else if let Some(items) = row["value"].get("push") {
                    push(&all(items).unwrap(), protocol, &mut out);
                } else {
                    continue;
                }
                assert_eq!(out, bytes(expected.unwrap()), "{row}");
                written += 1;
                let items = row["value"].get("push").and_then(all).unwrap_or_default();
                let [Reply::Bytes(kind), Reply::Bytes(channel), Reply::Bytes(payload)] = &items[..] else {
                    continue;
                };
                assert_eq!(kind, b"message");
                out.clear();
                message(channel, payload, protocol, &mut out);
                assert_eq!(out, bytes(expected.unwrap()), "{row}");
            }
        }
        assert!(written > 50, "{written}");
    }

    #[test]
    fn pairs_are_a_flat_list_in_the_older_version() {
        let pairs = Reply::Pairs(vec![(Reply::bytes("a"), Reply::Double(1.5))]);
        assert_eq!(encoded(&pairs, Protocol::Resp2), "*2\r\n$1\r\na\r\n$3\r\n1.5\r\n");
        assert_eq!(encoded(&pairs, Protocol::Resp3), "*1\r\n*2\r\n$1\r\na\r\n,1.5\r\n");
    }

    #[test]
    fn an_error_has_no_line_break_inside() {
        let error = Reply::Error(StoreError::err("a\r\nb"));
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            assert_eq!(encoded(&error, protocol), "-ERR a  b\r\n");
        }
    }
}
