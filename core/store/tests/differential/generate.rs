//! Random calls, which are the same for the same seed.

use std::time::Duration;

use steadlock_protocol::Script;
use steadlock_store::ServerTime;

use crate::compare::Check;

/// A call.
pub(crate) struct Step {
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) check: Check,
    /// How long to wait after the call, so that a short TTL has surely expired.
    pub(crate) wait: Option<Duration>,
}

/// Formats a call for people.
pub(crate) fn show(words: &[Vec<u8>]) -> String {
    let shown = words.iter().map(|word| {
        let script = Script::ALL.iter().find(|script| script.text().as_bytes() == word);
        script.map_or_else(|| format!("\"{}\"", word.escape_ascii()), |script| script.file().into())
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// A generator of steps.
pub(crate) struct Generator {
    state: u64,
    start_s: u64,
}

const KEYS: &[&str] = &["a", "b", "c", "d", "e", "f", "{t}g", "h\r\n\0"];
const FIELDS: &[&str] = &["x", "y", "z", "1", ""];
const VALUES: &[&str] = &[
    "1",
    "0",
    "-1",
    "17",
    "01",
    "3.5",
    "abc",
    "",
    "9223372036854775807",
    "-9223372036854775808",
    " 1",
    "\u{fc}\r\n\0",
];
const OWNERS: &[&str] = &[
    "00000000-0000-4000-8000-000000000001:1",
    "00000000-0000-4000-8000-000000000002:2",
    "she:3",
];

impl Generator {
    pub(crate) fn new(seed: u64, start: ServerTime) -> Self {
        Self {
            state: seed ^ 0x9E37_79B9_7F4A_7C15,
            start_s: start.as_micros() / 1_000_000,
        }
    }

    /// Returns the next step. Half of the steps are scripts.
    pub(crate) fn step(&mut self) -> Step {
        match self.below(100) {
            0..44 => {
                let (words, check) = self.command();
                exactly(words, check)
            }
            44..64 => self.lock_script(),
            64..84 => self.command_in_script(),
            84..99 => self.expression_script(),
            _ => self.short_life(),
        }
    }

    /// Draws one of Steadlock's scripts, with mostly correct arguments.
    fn lock_script(&mut self) -> Step {
        let script = *self.pick(Script::ALL);
        let is_strange = self.one_in(12);
        let name = if is_strange {
            *self.pick(KEYS)
        } else {
            *self.pick(&["lock", "l2"])
        };
        let token = format!("steadlock:{{{name}}}:token");
        let lease = *self.pick(&[
            "30000", "60000", "86400000", "120000", "30000", "60000", "0", "-1", "x", "86400001", "",
        ]);
        let owner = if self.one_in(20) { "" } else { *self.pick(OWNERS) };
        let (mut keys, mut args): (Vec<&str>, Vec<&str>) = match script {
            Script::LockAcquire => (vec![name, &token], vec![lease, owner]),
            Script::LockRenew => (vec![name], vec![lease, owner]),
            Script::LockRelease | Script::MutexRelease => (vec![name], vec![owner, "channel"]),
            // All other scripts, including future ones, get three keys and arguments of all kinds.
            _ => (vec![name, &token, "other"], vec![lease, owner, "1"]),
        };
        if self.one_in(8) && keys.len() > 1 {
            keys.pop();
        }
        if self.one_in(20) {
            args.pop();
        }
        if self.one_in(30) {
            // A token that Steadlock never writes.
            let value = *self.pick(&[
                "x",
                "9007199254740991",
                "12345678901234567",
                "9007199254740990",
                "5",
                "",
            ]);
            return exactly(owned(&["SET", &token, value, "EX", "1000"]), Check::Exact);
        }
        let count = keys.len().to_string();
        let mut words = owned(&["EVAL", script.text(), &count]);
        words.extend(owned(&keys));
        words.extend(owned(&args));
        // Such a script reports a random field of a hash as the holder.
        let is_drawn = is_strange || script.text().contains("HRANDFIELD");
        exactly(words, if is_drawn { Check::TimesAndDrawn } else { Check::Times })
    }

    /// Draws a command that a script calls in one of several ways.
    fn command_in_script(&mut self) -> Step {
        const WAYS: &[(&str, bool)] = &[
            ("return redis.call(unpack(ARGV))", true),
            ("local reply = redis.call(unpack(ARGV))\n\nreturn reply", true),
            ("return redis.pcall(unpack(ARGV))", true),
            ("return {redis.pcall(unpack(ARGV))}", false),
            ("return {pcall(redis.call, unpack(ARGV))}", false),
            (
                "local r = redis.pcall(unpack(ARGV)) return {type(r), type(r) == 'table' and (r.err or r.ok or #r) or 0}",
                false,
            ),
            ("for i = 1, 3 do redis.pcall(unpack(ARGV)) end return #ARGV", false),
            (
                "redis.call('SET', 'a', 'before')\nredis.call(unpack(ARGV))\nreturn 1",
                false,
            ),
            ("return redis.call(ARGV[1], KEYS[1], #ARGV, 2.5)", false),
        ];
        let (mut words, mut check) = self.command();
        let (text, is_plain) = *self.pick(WAYS);
        if !is_plain && check != Check::Exact {
            // A loose comparison is possible only if the script returns the reply unchanged.
            (words, check) = (owned(&["INCR", "a"]), Check::Exact);
        }
        let key = *self.pick(KEYS);
        let mut call = owned(&["EVAL", text, "1", key]);
        call.extend(words);
        exactly(call, check)
    }

    /// Draws a script that computes something.
    fn expression_script(&mut self) -> Step {
        let count = 1 + self.below(3);
        let parts: Vec<String> = (0..count).map(|_| self.expression(3)).collect();
        let text = match self.below(4) {
            0 => format!("return {}", parts[0]),
            1 => format!("return {{{}}}", parts.join(", ")),
            2 => format!("local x = {}\nreturn x", parts.join("\n  and ")),
            _ => format!("return {{pcall(function() return {} end)}}", parts.join(", ")),
        };
        let (key, arg) = (*self.pick(KEYS), *self.pick(VALUES));
        exactly(owned(&["EVAL", &text, "1", key, arg, "7"]), Check::Exact)
    }

    /// Draws a Lua expression that can fail, but that never shows an address.
    fn expression(&mut self, depth: u32) -> String {
        const ATOMS: &[&str] = &[
            "0", "1", "-1", "2.5", "1e15", "2^53", "'a'", "'10'", "'x y'", "''", "nil", "true", "false", "{}",
            "{1, 2}", "ARGV[1]", "ARGV[2]", "KEYS[1]", "#ARGV", "0/0", "-7",
        ];
        const BINARY: &[&str] = &["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", "and", "or"];
        if depth == 0 || self.one_in(4) {
            return (*self.pick(ATOMS)).into();
        }
        let a = self.expression(depth - 1);
        let b = self.expression(depth - 1);
        match self.below(20) {
            0..8 => format!("({a} {} {b})", self.pick(BINARY)),
            8 => format!("(not {a})"),
            9 => format!("#{a}"),
            10 => format!("tonumber({a})"),
            11 => format!("type({a})"),
            12 => format!("string.format('%d|%s|%5.1f', {a}, 's', {b})"),
            13 => format!("string.sub({a}, {b})"),
            14 => format!("string.find({a}, '^[0-9]*%d$')"),
            15 => format!("math.floor({a})"),
            16 => format!("math.max({a}, {b})"),
            17 => format!("table.concat({{{a}, {b}}}, ',')"),
            18 => format!("select({a}, {b}, 3)"),
            _ => format!("redis.sha1hex({a})"),
        }
    }

    /// Draws a key with a TTL of a few milliseconds, and the wait until it has expired.
    fn short_life(&mut self) -> Step {
        let key = *self.pick(KEYS);
        let words = match self.below(3) {
            0 => owned(&["PEXPIRE", key, "3"]),
            1 => owned(&["SET", key, "short", "PX", "3"]),
            _ => owned(&[
                "EVAL",
                "return {redis.call('SET', KEYS[1], 'x', 'PX', 3), redis.call('GET', KEYS[1])}",
                "1",
                key,
            ]),
        };
        Step {
            wait: Some(Duration::from_millis(8)),
            ..exactly(words, Check::Exact)
        }
    }

    /// Draws a command on a few keys, so that types conflict.
    fn command(&mut self) -> (Vec<Vec<u8>>, Check) {
        let key = *self.pick(KEYS);
        let other = *self.pick(KEYS);
        let field = *self.pick(FIELDS);
        let field2 = *self.pick(FIELDS);
        let value = *self.pick(VALUES);
        let number = *self.pick(&["1", "-1", "0", "2", "-2", "5", "x", "1.5", ""]);
        let number2 = *self.pick(&["1", "-1", "0", "2", "-2", "5", "-100", "100"]);
        // The times are far apart, so that a few milliseconds decide no comparison.
        let ttl = *self.pick(&["10000", "20000", "30000"]);
        let ttl_ms = *self.pick(&["10000000", "20000000", "x", "30000000"]);
        let moment = (self.start_s + 5_000 + 10_000 * self.below(3)).to_string();
        let rule = *self.pick(&["NX", "XX", "GT", "LT", "gt", "lt", "ZZ"]);
        let low = *self.pick(&["-inf", "0", "(1", "2.5", "x"]);
        let high = *self.pick(&["+inf", "3", "(2", "17"]);
        let words: &[&str] = match self.below(84) {
            0 => &["SET", key, value],
            1 => &["SET", key, value, "NX"],
            2 => &["SET", key, value, "XX", "GET"],
            3 => &["SET", key, value, "PX", ttl_ms],
            4 => &["SET", key, value, "EX", ttl, "NX"],
            5 => &["SET", key, value, "KEEPTTL"],
            6 => &["SET", key, value, "EXAT", &moment],
            7 => &["SET", key, value, rule],
            8..12 => &["GET", key],
            12 => &["GETSET", key, value],
            13 => &["GETDEL", key],
            14 => &["MGET", key, other, "nokey"],
            15 => &["MSET", key, value, other, field],
            16 => &["SETNX", key, value],
            17 => &["APPEND", key, field],
            18 => &["STRLEN", key],
            19 => &["INCR", key],
            20 => &["DECR", key],
            21 => &["INCRBY", key, value],
            22 => &["DECRBY", key, value],
            23..26 => &["HSET", key, field, value, field2, number],
            26 => &["HSET", key, field, value, field2],
            27 => &["HSETNX", key, field, value],
            28 => &["HGET", key, field],
            29 => &["HMGET", key, field, field2],
            30 => &["HDEL", key, field, field2],
            31 => &["HLEN", key],
            32 => &["HEXISTS", key, field],
            33 => &["HINCRBY", key, field, value],
            34 => return (owned(&["HGETALL", key]), Check::Times),
            35 => &["HKEYS", key],
            36 => &["HVALS", key],
            37 => return (owned(&["HRANDFIELD", key]), Check::Shape),
            38 => &["HMSET", key, field, value],
            39 => &["LPUSH", key, value, field],
            40 => &["RPUSH", key, value, field],
            41 => &["LPOP", key],
            42 => &["RPOP", key, number],
            43 => &["LRANGE", key, number, number2],
            44 => &["LLEN", key],
            45 => &["LREM", key, number, value],
            46 => &["LTRIM", key, number2, number],
            47 => &["LINDEX", key, number],
            48 => &["SADD", key, value, field],
            49 => &["SREM", key, value],
            50 => &["SISMEMBER", key, value],
            51 => &["SCARD", key],
            52 => return (owned(&["SMEMBERS", key]), Check::Unordered),
            53 => &["ZADD", key, number, field, number2, field2],
            54 => &["ZADD", key, rule, "CH", number, field],
            55 => &["ZADD", key, "INCR", number, field],
            56 => &["ZSCORE", key, field],
            57 => &["ZRANGE", key, number, number2],
            58 => &["ZRANGE", key, number2, number, "REV", "WITHSCORES"],
            59 => &["ZRANGEBYSCORE", key, low, high],
            60 => &["ZRANGEBYSCORE", key, low, high, "WITHSCORES", "LIMIT", "1", "2"],
            61 => &["ZREM", key, field],
            62 => &["ZCARD", key],
            63 => &["ZPOPMIN", key],
            64 => &["ZCOUNT", key, low, high],
            65 => &["ZINCRBY", key, number, field],
            66 => &["ZREMRANGEBYSCORE", key, low, high],
            67 => &["ZRANK", key, field],
            68 => &["DEL", key],
            69 => &["UNLINK", key, other],
            70 => &["EXISTS", key, other, key],
            71 => &["TYPE", key],
            72 => &["EXPIRE", key, ttl],
            73 => &["PEXPIRE", key, ttl_ms],
            74 => &["EXPIREAT", key, &moment, rule],
            75 => &["EXPIREAT", key, &moment],
            76 => &["PERSIST", key],
            77 => return (owned(&["PTTL", key]), Check::Times),
            78 => return (owned(&["TTL", key]), Check::Times),
            79 => return (owned(&["KEYS", "[a-e]*"]), Check::Unordered),
            // DBSIZE is left out: Redis counts expired keys until it finds them.
            80 => &["HLEN", other],
            81 => &["PUBLISH", key, value],
            82 => &[
                *self.pick(&["EXPIRE", "PEXPIRE"]),
                key,
                *self.pick(&["0", "-1", "-5000"]),
            ],
            _ => {
                // Too few or too many words, or an unknown command.
                let name = *self.pick(&["GET", "HSET", "SET", "ZADD", "DEL", "EXPIRE", "NOSUCH", "LPOP"]);
                let words = [name, key, field, value, number];
                let count = 1 + usize::try_from(self.below(5)).unwrap();
                return (owned(&words[..count]), Check::Exact);
            }
        };
        (owned(words), Check::Exact)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let count = u64::try_from(from.len()).unwrap();
        &from[usize::try_from(self.below(count)).unwrap()]
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

fn exactly(words: Vec<Vec<u8>>, check: Check) -> Step {
    Step {
        words,
        check,
        wait: None,
    }
}

fn owned(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}
