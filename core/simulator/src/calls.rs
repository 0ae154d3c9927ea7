//! Records what sessions hand out to be sent, and computes a fingerprint of it. Two builds that hand out the same calls
//! at the same times in each history behave alike on the wire.
//!
//! Ids are random, so the fingerprint uses numbers instead. The number of a client is its position. The owners of a
//! client are numbered in the order of their appearance.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::hash::Hasher;

use steadlock_protocol::{Call, Transmit};

use crate::fnv::Fnv;
use crate::route::ConnectionKind;
use crate::time::Micros;
use crate::trace::At;

/// A summary of everything that sessions handed out in one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The number of script calls.
    pub calls: u64,
    /// The hash of all script calls, in order.
    pub call_hash: u64,
    /// The number of requests to subscribe to a channel.
    pub subscribes: u64,
    /// The number of requests to unsubscribe from a channel.
    pub unsubscribes: u64,
    /// The hash of all these requests, in order.
    pub channel_hash: u64,
    /// The hash of the times at which calls and requests were handed out.
    pub time_hash: u64,
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            calls,
            call_hash,
            subscribes,
            unsubscribes,
            channel_hash,
            time_hash,
        } = self;
        write!(
            f,
            "calls {calls} {call_hash:016x}, subscribes {subscribes}, unsubscribes {unsubscribes} \
             {channel_hash:016x}, times {time_hash:016x}"
        )
    }
}

/// Everything that has been handed out so far.
#[derive(Debug)]
pub(crate) struct Calls {
    ids: Ids,
    calls: u64,
    subscribes: u64,
    unsubscribes: u64,
    call_hash: Fnv,
    channel_hash: Fnv,
    time_hash: Fnv,
    /// Whether each call and each request is printed when it is handed out.
    pub(crate) print: bool,
}

impl Calls {
    /// Starts an empty record for clients with these ids.
    pub(crate) fn new<'a>(clients: impl Iterator<Item = &'a str>) -> Self {
        Self {
            ids: Ids::new(clients),
            calls: 0,
            subscribes: 0,
            unsubscribes: 0,
            call_hash: Fnv::default(),
            channel_hash: Fnv::default(),
            time_hash: Fnv::default(),
            print: false,
        }
    }

    /// Records what a client's session handed out.
    pub(crate) fn handed_out(&mut self, now: Micros, client: usize, transmit: &Transmit) {
        let (text, hash) = match transmit {
            Transmit::Call(call) => {
                self.calls += 1;
                (self.ids.call(call), &mut self.call_hash)
            }
            Transmit::Subscribe { node, channel } => {
                self.subscribes += 1;
                let channel = self.ids.numbered(channel);
                (format!("node {} subscribe {channel}", node.0), &mut self.channel_hash)
            }
            Transmit::Unsubscribe { node, channel } => {
                self.unsubscribes += 1;
                let channel = self.ids.numbered(channel);
                (format!("node {} unsubscribe {channel}", node.0), &mut self.channel_hash)
            }
        };
        let text = format!("client {client} {text}");
        hash.write(text.as_bytes());
        hash.write_u8(b'\n');
        self.time_hash.write_u64(now);
        if self.print {
            println!("{} {text}", At(now));
        }
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            calls: self.calls,
            call_hash: self.call_hash.finish(),
            subscribes: self.subscribes,
            unsubscribes: self.unsubscribes,
            channel_hash: self.channel_hash.finish(),
            time_hash: self.time_hash.finish(),
        }
    }
}

/// The length of a client id.
const ID: usize = 36;

/// The numbers of ids.
#[derive(Debug)]
struct Ids {
    clients: BTreeMap<Vec<u8>, Known>,
}

/// The number of a client, and the numbers of its owners by the second part of their ids.
#[derive(Debug)]
struct Known {
    number: usize,
    owners: BTreeMap<Vec<u8>, usize>,
}

impl Ids {
    fn new<'a>(clients: impl Iterator<Item = &'a str>) -> Self {
        let known = |(number, id): (usize, &str)| {
            let owners = BTreeMap::new();
            (id.as_bytes().to_vec(), Known { number, owners })
        };
        Self {
            clients: clients.enumerate().map(known).collect(),
        }
    }

    fn call(&mut self, call: &Call) -> String {
        let (node, connection, script) = (call.node.0, ConnectionKind::of(call.lane), call.script.file());
        let mut text = format!("node {node} {connection:?} {script} KEYS");
        for key in &call.keys {
            text.push(' ');
            text += &self.numbered(key);
        }
        text += " ARGV";
        for arg in &call.args {
            text.push(' ');
            text += &self.numbered(arg);
        }
        text
    }

    /// Returns the text in quotes, with a number in place of each id.
    fn numbered(&mut self, text: &[u8]) -> String {
        let (mut numbered, mut rest) = (String::from("\""), text);
        while let Some((first, others)) = rest.split_first() {
            let known = rest.get(..ID).and_then(|id| self.clients.get_mut(id));
            let Some(Known { number, owners }) = known else {
                let _ = write!(numbered, "{}", first.escape_ascii());
                rest = others;
                continue;
            };
            let _ = write!(numbered, "<client {number}>");
            rest = &rest[ID..];
            let digits = rest.strip_prefix(b":").unwrap_or_default();
            let length = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
            if length > 0 {
                let next = owners.len();
                let owner = owners.entry(digits[..length].to_vec()).or_insert(next);
                let _ = write!(numbered, ":<owner {owner}>");
                rest = &digits[length..];
            }
        }
        numbered.push('"');
        numbered
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use steadlock_protocol::{CallId, Lane, NodeId, Script};

    use super::*;

    const ONE: &str = "5cfb54d5-ddd4-4cbc-b974-2bf0f8e6033c";
    const OTHER: &str = "7ab231a5-a9a6-4207-87b0-252f88eed4a2";

    fn call(words: &[&str]) -> Transmit {
        Transmit::Call(Call {
            id: CallId::from_u64(1),
            node: NodeId(0),
            lane: Lane::Command,
            script: Script::FairPoll,
            keys: vec![Arc::from(b"alpha".as_slice())],
            args: words.iter().map(|word| Arc::from(word.as_bytes())).collect(),
        })
    }

    fn subscribe(channel: &str) -> Transmit {
        Transmit::Subscribe {
            node: NodeId(0),
            channel: channel.as_bytes().into(),
        }
    }

    /// Plays a short history of a client with this id, whose owners have these numbers.
    fn history(client: &str, [first, second]: [u64; 2]) -> Fingerprint {
        let mut calls = Calls::new([client].into_iter());
        let (first, second) = (format!("{client}:{first}"), format!("{client}:{second}"));
        calls.handed_out(1, 0, &call(&[&first, "1"]));
        calls.handed_out(2, 0, &subscribe(&format!("steadlock:{{alpha}}:grants:{client}")));
        calls.handed_out(3, 0, &call(&[&format!("{first}/1 {second}"), "1"]));
        calls.handed_out(4, 0, &call(&[&second]));
        calls.fingerprint()
    }

    #[test]
    fn histories_that_differ_in_ids_only_have_one_fingerprint() {
        assert_eq!(history(ONE, [7, 8]), history(OTHER, [900, 12]));
    }

    #[test]
    fn another_owner_is_another_fingerprint() {
        let (one, other) = (history(ONE, [7, 8]), history(ONE, [7, 7]));
        assert_ne!(one.call_hash, other.call_hash);
        assert_eq!((one.channel_hash, one.time_hash), (other.channel_hash, other.time_hash));
    }

    #[test]
    fn each_part_of_a_fingerprint_shows_its_own_change() {
        let of = |time, client, transmit: Transmit| {
            let mut calls = Calls::new([ONE, OTHER].into_iter());
            calls.handed_out(time, client, &transmit);
            calls.fingerprint()
        };
        let one = of(1, 0, call(&["a", "b"]));
        let later = of(2, 0, call(&["a", "b"]));
        assert_eq!(one.call_hash, later.call_hash);
        assert_ne!(one.time_hash, later.time_hash);
        assert_ne!(one.call_hash, of(1, 1, call(&["a", "b"])).call_hash);
        assert_ne!(one.call_hash, of(1, 0, call(&["a b"])).call_hash);
        assert_ne!(
            of(1, 0, subscribe("a")).channel_hash,
            of(1, 0, subscribe("b")).channel_hash
        );
        assert_eq!(
            (one.calls, one.subscribes, of(1, 0, subscribe("a")).subscribes),
            (1, 0, 1)
        );
    }

    #[test]
    fn ids_are_numbered_wherever_they_stand() {
        let mut ids = Ids::new([ONE, OTHER].into_iter());
        let text = format!("x{OTHER}:5 {ONE}:5/2 {OTHER}:6 {OTHER}:5 {OTHER}");
        assert_eq!(
            ids.numbered(text.as_bytes()),
            "\"x<client 1>:<owner 0> <client 0>:<owner 0>/2 <client 1>:<owner 1> <client 1>:<owner 0> <client 1>\""
        );
        assert_eq!(ids.numbered(b"\"\n\xff"), r#""\"\n\xff""#);
    }
}
