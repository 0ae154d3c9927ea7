//! What goes over a simulated connection: commands in, replies and pushes out, in RESP3.

use leasehold_store::Reply;

/// The words of the first command, and how many bytes it takes; `None` until all of it is there.
pub(super) fn command(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let mut at = 0;
    let count = number(bytes, &mut at, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let length = number(bytes, &mut at, b'$')?;
        words.push(bytes.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

fn number(bytes: &[u8], at: &mut usize, kind: u8) -> Option<usize> {
    let rest = bytes.get(*at..)?;
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let line = &rest[..end];
    assert_eq!(line.first(), Some(&kind), "the client speaks no RESP");
    *at += end + 2;
    std::str::from_utf8(&line[1..]).ok()?.parse().ok()
}

/// Appends a reply.
pub(super) fn reply(reply: &Reply, out: &mut Vec<u8>) {
    match reply {
        Reply::Nil | Reply::NilArray => line(b'_', b"", out),
        Reply::Int(number) => line(b':', number.to_string().as_bytes(), out),
        Reply::Double(number) => line(b',', number.to_string().as_bytes(), out),
        Reply::Bytes(bytes) => bulk(bytes, out),
        Reply::Status(status) => line(b'+', status.as_bytes(), out),
        Reply::Error(error) => line(b'-', error.to_string().as_bytes(), out),
        Reply::Array(items) => list(b'*', items, out),
        Reply::Set(items) => list(b'~', items, out),
        Reply::Map(entries) => {
            line(b'%', entries.len().to_string().as_bytes(), out);
            for item in entries.iter().flat_map(|(key, value)| [key, value]) {
                self::reply(item, out);
            }
        }
        Reply::Pairs(pairs) => {
            line(b'*', pairs.len().to_string().as_bytes(), out);
            for (first, second) in pairs {
                line(b'*', b"2", out);
                self::reply(first, out);
                self::reply(second, out);
            }
        }
    }
}

/// Appends what comes without being asked for.
pub(super) fn push(items: &[Reply], out: &mut Vec<u8>) {
    list(b'>', items, out);
}

fn list(kind: u8, items: &[Reply], out: &mut Vec<u8>) {
    line(kind, items.len().to_string().as_bytes(), out);
    for item in items {
        reply(item, out);
    }
}

fn line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    line(b'$', bytes.len().to_string().as_bytes(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}
