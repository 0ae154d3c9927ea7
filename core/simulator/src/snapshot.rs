//! The state of a primary that its replica has received.

use steadlock_store::{Reply, ServerTime, Store};

use crate::records::texts;

/// The state of a server at one time, as commands that restore it.
pub(crate) struct Snapshot(Vec<Vec<Vec<u8>>>);

impl Snapshot {
    /// Takes a snapshot of the whole store.
    pub(crate) fn take(store: &mut Store, clock: ServerTime) -> Self {
        let mut commands = vec![vec![b"FLUSHALL".to_vec()]];
        for key in texts(store.execute(&["KEYS", "*"], clock)) {
            commands.extend(Self::of_key(store, key, clock).0);
        }
        Self(commands)
    }

    /// Returns a snapshot without any data.
    pub(crate) fn empty() -> Self {
        Self(vec![vec![b"FLUSHALL".to_vec()]])
    }

    /// Takes a snapshot of one key with its value and TTL. Restoring it adds the key to the existing data.
    pub(crate) fn of_key(store: &mut Store, key: Vec<u8>, clock: ServerTime) -> Self {
        let mut commands = Vec::new();
        let kind = store.execute(&[b"TYPE", key.as_slice()], clock);
        let (read, write): (&[&[u8]], &str) = match &kind {
            Reply::Status(kind) if kind == "string" => (&[b"GET", &key], "SET"),
            Reply::Status(kind) if kind == "hash" => (&[b"HGETALL", &key], "HSET"),
            Reply::Status(kind) if kind == "set" => (&[b"SMEMBERS", &key], "SADD"),
            Reply::Status(kind) if kind == "list" => (&[b"LRANGE", &key, b"0", b"-1"], "RPUSH"),
            Reply::Status(kind) if kind == "zset" => (&[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"], "ZADD"),
            other => unreachable!("a key is {other:?}"),
        };
        let mut values = texts(store.execute(read, clock));
        if write == "ZADD" {
            for pair in values.chunks_mut(2) {
                pair.reverse();
            }
        }
        commands.push([vec![write.into(), key.clone()], values].concat());
        if let Reply::Int(left @ 0..) = store.execute(&[b"PTTL", key.as_slice()], clock) {
            let until = i64::try_from(clock.as_micros() / 1_000).unwrap_or(i64::MAX) + left;
            commands.push(vec![b"PEXPIREAT".to_vec(), key, until.to_string().into_bytes()]);
        }
        Self(commands)
    }

    /// Restores the state. A snapshot of the whole store replaces all data; a snapshot of one key only adds that key.
    pub(crate) fn restore(self, store: &mut Store, clock: ServerTime) {
        for command in self.0 {
            let reply = store.execute(&command, clock);
            assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
        }
    }
}
