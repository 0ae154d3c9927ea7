//! The commands: one table, and a file for each family.

mod args;
mod generic;
mod hashes;
mod lists;
pub(crate) mod scripting;
mod server;
mod sets;
mod sorted_sets;
mod strings;

use std::collections::HashMap;

use once_cell::race::OnceBox;
#[cfg(feature = "server")]
pub(crate) use server::unknown_subcommand;

use crate::data::Data;
use crate::reply::{Reply, StoreError};

/// The function that runs a command on the data. The arguments begin with the command's name.
pub(crate) type RunData = fn(&mut Data, &[&[u8]]) -> Result<Reply, StoreError>;

/// The part of the store that executes a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// The data. Scripts may call the command.
    Data(RunData),
    /// The script engine, through `scripting`.
    Script(Scripting),
    /// The server in front of the store, because the command concerns its connection.
    Connection,
}

/// The commands on scripts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scripting {
    Eval,
    EvalSha,
    Script,
}

/// The effect of a command on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// The command changes the store, but does not enlarge it.
    Writes,
    /// The command can enlarge the store: Redis gives it the flag `denyoom`.
    Adds,
}

#[derive(Debug)]
pub(crate) struct Command {
    /// The name, in lower case.
    pub(crate) name: &'static str,
    /// The number of arguments, including the name. A negative number is a minimum: -3 means three or more.
    arity: i32,
    pub(crate) run: Run,
    pub(crate) effect: Effect,
    /// Whether the command can take long, because it visits many elements or reaches many clients.
    pub(crate) is_slow: bool,
}

impl Command {
    /// Returns whether this number of arguments, including the name, is possible.
    pub(crate) fn accepts(&self, count: usize) -> bool {
        let least = usize::try_from(self.arity.unsigned_abs()).unwrap_or(usize::MAX);
        if self.arity < 0 { count >= least } else { count == least }
    }

    /// Marks a command that changes the store, but does not enlarge it.
    const fn writes(mut self) -> Self {
        self.effect = Effect::Writes;
        self
    }

    /// Marks a command that can enlarge the store. A full store refuses it, except in a script that has written.
    const fn adds(mut self) -> Self {
        self.effect = Effect::Adds;
        self
    }

    /// Marks a command that can take long.
    const fn slow(mut self) -> Self {
        self.is_slow = true;
        self
    }

    /// Returns the arguments that are keys, for a [`Run::Data`] command; for `MSET` only the first key.
    pub(crate) fn keys<'a, 'b>(&self, args: &'a [&'b [u8]]) -> &'a [&'b [u8]] {
        match self.name {
            "del" | "exists" | "mget" | "unlink" => &args[1..],
            "command" | "config" | "dbsize" | "echo" | "flushall" | "flushdb" | "info" | "keys" | "ping"
            | "publish" | "pubsub" | "role" | "scan" | "select" | "spublish" | "time" => &[],
            _ => args.get(1..2).unwrap_or_default(),
        }
    }

    /// Returns the position of the command in the table.
    pub(crate) fn index(&self) -> usize {
        // All commands are in the table, so their addresses give the position. A search would cost more than most
        // commands.
        (std::ptr::from_ref(self).addr() - TABLE.as_ptr().addr()) / size_of::<Self>()
    }
}

/// Returns the command with this name, in upper or lower case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    // No `OnceLock`: a child that is forked while another thread initializes it would wait for ever.
    static BY_NAME: OnceBox<HashMap<&'static [u8], &'static Command>> = OnceBox::new();
    let all = || TABLE.iter().map(|command| (command.name.as_bytes(), command)).collect();
    let by_name = BY_NAME.get_or_init(|| Box::new(all()));
    let mut lower = [0; MAX_NAME];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    by_name.get(&*lower).copied()
}

/// Returns the names of all commands, in the order of the table.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|command| command.name)
}

/// A length that exceeds all names in the table.
const MAX_NAME: usize = 24;

const fn data(name: &'static str, arity: i32, run: RunData) -> Command {
    Command {
        name,
        arity,
        run: Run::Data(run),
        effect: Effect::None,
        is_slow: false,
    }
}

const fn script(name: &'static str, arity: i32, run: Scripting) -> Command {
    Command {
        name,
        arity,
        run: Run::Script(run),
        effect: Effect::None,
        is_slow: false,
    }
}

const fn connection(name: &'static str, arity: i32) -> Command {
    Command {
        name,
        arity,
        run: Run::Connection,
        effect: Effect::None,
        is_slow: false,
    }
}

/// Every command, with its arity in Redis 7.
static TABLE: &[Command] = &[
    // Strings
    data("append", 3, strings::append).adds(),
    data("decr", 2, strings::decr).adds(),
    data("decrby", 3, strings::decrby).adds(),
    data("get", 2, strings::get),
    data("getdel", 2, strings::getdel).writes(),
    data("getset", 3, strings::getset).adds(),
    data("incr", 2, strings::incr).adds(),
    data("incrby", 3, strings::incrby).adds(),
    data("mget", -2, strings::mget),
    data("mset", -3, strings::mset).adds(),
    data("psetex", 4, strings::psetex).adds(),
    data("set", -3, strings::set).adds(),
    data("setex", 4, strings::setex).adds(),
    data("setnx", 3, strings::setnx).adds(),
    data("strlen", 2, strings::strlen),
    // Hashes
    data("hdel", -3, hashes::hdel).writes(),
    data("hexists", 3, hashes::hexists),
    data("hget", 3, hashes::hget),
    data("hgetall", 2, hashes::hgetall).slow(),
    data("hincrby", 4, hashes::hincrby).adds(),
    data("hkeys", 2, hashes::hkeys).slow(),
    data("hlen", 2, hashes::hlen),
    data("hmget", -3, hashes::hmget),
    data("hmset", -4, hashes::hmset).adds(),
    data("hrandfield", -2, hashes::hrandfield).slow(),
    data("hset", -4, hashes::hset).adds(),
    data("hsetnx", 4, hashes::hsetnx).adds(),
    data("hvals", 2, hashes::hvals).slow(),
    // Lists
    data("lindex", 3, lists::lindex),
    data("llen", 2, lists::llen),
    data("lpop", -2, lists::lpop).writes().slow(),
    data("lpush", -3, lists::lpush).adds(),
    data("lrange", 4, lists::lrange).slow(),
    data("lrem", 4, lists::lrem).writes().slow(),
    data("ltrim", 4, lists::ltrim).writes().slow(),
    data("rpop", -2, lists::rpop).writes().slow(),
    data("rpush", -3, lists::rpush).adds(),
    // Sets
    data("sadd", -3, sets::sadd).adds(),
    data("scard", 2, sets::scard),
    data("sismember", 3, sets::sismember),
    data("smembers", 2, sets::smembers).slow(),
    data("srem", -3, sets::srem).writes(),
    // Sorted sets
    data("zadd", -4, sorted_sets::zadd).adds(),
    data("zcard", 2, sorted_sets::zcard),
    data("zcount", 4, sorted_sets::zcount).slow(),
    data("zincrby", 4, sorted_sets::zincrby).adds(),
    data("zpopmin", -2, sorted_sets::zpopmin).writes().slow(),
    data("zrange", -4, sorted_sets::zrange).slow(),
    data("zrangebyscore", -4, sorted_sets::zrangebyscore).slow(),
    data("zrank", 3, sorted_sets::zrank).slow(),
    data("zrem", -3, sorted_sets::zrem).writes(),
    data("zremrangebyscore", 4, sorted_sets::zremrangebyscore)
        .writes()
        .slow(),
    data("zscore", 3, sorted_sets::zscore),
    // Keys
    data("dbsize", 1, generic::dbsize).slow(),
    data("del", -2, generic::del).writes(),
    data("exists", -2, generic::exists),
    data("expire", -3, generic::expire).writes(),
    data("expireat", -3, generic::expireat).writes(),
    data("flushall", -1, generic::flushall).writes().slow(),
    data("flushdb", -1, generic::flushall).writes().slow(),
    data("keys", 2, generic::keys).slow(),
    data("persist", 2, generic::persist).writes(),
    data("pexpire", -3, generic::pexpire).writes(),
    data("pexpireat", -3, generic::pexpireat).writes(),
    data("pttl", 2, generic::pttl),
    data("scan", -2, generic::scan).slow(),
    data("ttl", 2, generic::ttl),
    data("type", 2, generic::type_of),
    data("unlink", -2, generic::del).writes(),
    // Scripts
    script("eval", -3, Scripting::Eval),
    script("evalsha", -3, Scripting::EvalSha),
    script("script", -2, Scripting::Script),
    // Messages
    data("publish", 3, server::publish).slow(),
    data("pubsub", -2, server::pubsub).slow(),
    data("spublish", 3, server::spublish).slow(),
    // The server
    data("command", -1, server::command),
    data("config", -2, server::config),
    data("echo", 2, server::echo),
    data("info", -1, server::info).slow(),
    data("ping", -1, server::ping),
    data("role", 1, server::role),
    data("select", 2, server::select),
    data("time", 1, server::time),
    // The connection
    connection("auth", -2),
    connection("client", -2),
    connection("discard", 1),
    connection("exec", 1),
    connection("hello", -1),
    connection("multi", 1),
    connection("quit", -1),
    connection("reset", 1),
    connection("subscribe", -2),
    connection("unsubscribe", -1),
    connection("unwatch", 1),
    connection("watch", -2),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for command in TABLE {
            for name in [command.name.to_ascii_uppercase(), command.name.into()] {
                assert!(std::ptr::eq(find(name.as_bytes()).unwrap(), command), "{name}");
            }
        }
        assert!(find(b"nosuch").is_none());
        assert!(find(&[b'x'; 1000]).is_none());
        assert!(find(b"").is_none());
    }
}
