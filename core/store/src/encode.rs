//! Encodes replies as a server sends them, in RESP.

pub use steadlock_resp::replies::Protocol;

use steadlock_resp::replies::Writer;

use crate::float;
use crate::reply::Reply;

/// Appends a reply.
pub fn reply(reply: &Reply, protocol: Protocol, out: &mut Vec<u8>) {
    write(reply, &mut Writer::new(out, protocol));
}

/// Appends a push, which answers no command.
pub fn push(items: &[Reply], protocol: Protocol, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out, protocol);
    writer.push(items.len());
    write_all(items, &mut writer);
}

fn write(reply: &Reply, writer: &mut Writer<'_>) {
    match reply {
        Reply::Nil => writer.nil(),
        Reply::NilArray => writer.nil_array(),
        Reply::Int(number) => writer.int(*number),
        Reply::Double(number) => writer.double(&float::format(*number)),
        Reply::Bytes(bytes) => writer.bytes(bytes),
        Reply::Status(status) => writer.status(status),
        Reply::Error(error) => writer.error(&error.to_string()),
        Reply::Array(items) => {
            writer.array(items.len());
            write_all(items, writer);
        }
        Reply::Set(items) => {
            writer.set(items.len());
            write_all(items, writer);
        }
        Reply::Map(entries) => {
            writer.map(entries.len());
            for (key, value) in entries {
                write(key, writer);
                write(value, writer);
            }
        }
        Reply::Pairs(pairs) => {
            writer.pairs(pairs.len());
            for (first, second) in pairs {
                writer.pair();
                write(first, writer);
                write(second, writer);
            }
        }
    }
}

fn write_all(items: &[Reply], writer: &mut Writer<'_>) {
    for item in items {
        write(item, writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_a_flat_list_in_the_older_version() {
        let pairs = Reply::Pairs(vec![(Reply::bytes("a"), Reply::Double(1.5))]);
        for (version, expected) in [
            (Protocol::Resp2, "*2\r\n$1\r\na\r\n$3\r\n1.5\r\n"),
            (Protocol::Resp3, "*1\r\n*2\r\n$1\r\na\r\n,1.5\r\n"),
        ] {
            let mut out = Vec::new();
            reply(&pairs, version, &mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }
}
