//! Causes each error on a real server, and ends it.

use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redis::{RedisResult, Value};

use crate::support::Redis;
use crate::support::version::Version;

/// A condition that makes a server reply with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    Full,
    ReadOnly,
    MasterDown,
    Loading,
    Busy,
    NoScript,
    WrongType,
    OtherForm,
    BadToken,
    NoAuth,
    WrongPass,
    NoPerm,
    NoReplicas,
    CannotSave,
    MaxClients,
}

impl Trouble {
    pub const ALL: &[Self] = &[
        Self::Full,
        Self::ReadOnly,
        Self::MasterDown,
        Self::Loading,
        Self::Busy,
        Self::NoScript,
        Self::WrongType,
        Self::OtherForm,
        Self::BadToken,
        Self::NoAuth,
        Self::WrongPass,
        Self::NoPerm,
        Self::NoReplicas,
        Self::CannotSave,
        Self::MaxClients,
    ];
}

/// A server, and its operator's connection, which no trouble closes.
pub struct TroubledServer {
    redis: Redis,
    operator: Mutex<redis::Connection>,
    /// The thread whose command keeps the server busy.
    busy: Mutex<Option<JoinHandle<()>>>,
}

impl TroubledServer {
    pub fn start(trouble: Trouble) -> Self {
        // Redis 6.2 has no such option and always allows DEBUG.
        let debug: &[&str] = match Version::chosen() {
            Version::Redis62 => &[],
            _ => &["--enable-debug-command", "yes"],
        };
        let args = [debug, &["--rdbcompression", "no", "--maxmemory-policy", "noeviction"]].concat();
        let redis = Redis::start_with(&args, None);
        for user in ["app", "operator"] {
            redis.run(&["ACL", "SETUSER", user, "on", ">pw", "~*", "&*", "+@all"]);
        }
        if trouble == Trouble::Loading {
            let fill = "for i = 1, 100 do redis.call('SET', 'big' .. i, string.rep('x', 200000)) end";
            redis.run(&["EVAL", fill, "0"]);
        }
        let operator = connection(&redis, "operator");
        Self {
            redis,
            operator: Mutex::new(operator),
            busy: Mutex::new(None),
        }
    }

    pub fn redis(&self) -> &Redis {
        &self.redis
    }

    /// Returns the URL for the clients that meet the trouble.
    pub fn url(&self, trouble: Trouble) -> String {
        match trouble {
            Trouble::NoAuth => self.redis.url(),
            _ => format!("redis://app:pw@127.0.0.1:{}", self.redis.port),
        }
    }

    /// Runs a command of the operator. The server never refuses it.
    pub fn run(&self, args: &[&str]) -> Value {
        self.ask(args).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    fn ask(&self, args: &[&str]) -> RedisResult<Value> {
        let mut operator = self.operator.lock().expect("the operator");
        redis::cmd(args[0]).arg(&args[1..]).query(&mut *operator)
    }

    fn set(&self, option: &str, value: &str) {
        self.run(&["CONFIG", "SET", option, value]);
    }

    /// Begins the trouble. `names` are the names of the locks that clients use.
    pub fn begin(&self, trouble: Trouble, names: &[String]) {
        match trouble {
            Trouble::Full => self.set("maxmemory", "1"),
            Trouble::ReadOnly => drop(self.run(&["REPLICAOF", "127.0.0.1", "1"])),
            Trouble::MasterDown => {
                self.set("replica-serve-stale-data", "no");
                self.run(&["REPLICAOF", "127.0.0.1", "1"]);
            }
            Trouble::Loading => {
                // The load takes so many microseconds for each of about 200 keys. The load is long enough for renewals
                // to be overdue, and too short for a lease to expire.
                self.set("key-load-delay", "17000");
                if Version::chosen() != Version::Redis62 {
                    self.set("loading-process-events-interval-bytes", "1024");
                }
                self.keep_busy(&["DEBUG", "RELOAD"]);
                self.wait_until_refused("LOADING");
            }
            Trouble::Busy => {
                self.set("lua-time-limit", "1");
                self.keep_busy(&["EVAL", "while true do end", "0"]);
                self.wait_until_refused("BUSY");
            }
            Trouble::NoScript => drop(self.run(&["SCRIPT", "FLUSH"])),
            Trouble::WrongType => {
                for key in names.iter().flat_map(|name| records(name)) {
                    self.run(&["DEL", &key]);
                    self.run(&["RPUSH", &key, "data"]);
                }
            }
            Trouble::OtherForm => {
                for name in names {
                    let [named, state, readers, permits] = records(name);
                    self.run(&["DEL", &named, &state, &readers, &permits]);
                    self.run(&["HSET", &named, "name", "a", "mail", "b"]);
                    self.run(&["HSET", &state, "name", "a"]);
                    for members in [&readers, &permits] {
                        self.run(&["ZADD", members, "99999999999999", "bob"]);
                    }
                }
            }
            Trouble::BadToken => {
                for name in names {
                    self.run(&["SET", &token(name), "none", "PX", "600000"]);
                }
            }
            Trouble::NoAuth => {
                self.set("requirepass", "new");
                self.cut_off("default");
            }
            Trouble::WrongPass => {
                self.run(&["ACL", "SETUSER", "app", "resetpass", ">new"]);
                self.cut_off("app");
            }
            Trouble::NoPerm => drop(self.run(&["ACL", "SETUSER", "app", "-evalsha"])),
            Trouble::NoReplicas => self.set("min-replicas-to-write", "1"),
            Trouble::CannotSave => {
                self.set("save", "3600 1000000");
                let folder = self.redis.socket().with_file_name("dump.rdb");
                std::fs::create_dir(folder).expect("a folder where its file would be");
                self.run(&["BGSAVE"]);
                self.wait_until("the server could not save", || {
                    self.has_info_line("persistence", "rdb_last_bgsave_status:err")
                });
            }
            Trouble::MaxClients => {
                self.set("maxclients", "1");
                self.cut_off("app");
            }
        }
    }

    /// Ends the trouble.
    pub fn end(&self, trouble: Trouble, names: &[String]) {
        match trouble {
            Trouble::Full => self.set("maxmemory", "0"),
            Trouble::ReadOnly | Trouble::MasterDown => drop(self.run(&["REPLICAOF", "NO", "ONE"])),
            Trouble::Busy => drop(self.run(&["SCRIPT", "KILL"])),
            Trouble::NoAuth => self.set("requirepass", ""),
            Trouble::WrongPass => drop(self.run(&["ACL", "SETUSER", "app", "resetpass", ">pw"])),
            Trouble::NoPerm => drop(self.run(&["ACL", "SETUSER", "app", "+evalsha"])),
            Trouble::NoReplicas => self.set("min-replicas-to-write", "0"),
            Trouble::CannotSave => self.set("save", ""),
            Trouble::MaxClients => self.set("maxclients", "10000"),
            Trouble::BadToken => {
                for name in names {
                    self.run(&["DEL", &token(name)]);
                }
            }
            Trouble::Loading | Trouble::NoScript | Trouble::WrongType | Trouble::OtherForm => {}
        }
        if let Some(busy) = self.busy.lock().expect("the busy thread").take() {
            busy.join().expect("the busy connection");
        }
    }

    /// Closes a user's connections, and waits until their clients have noticed: each connects again at once.
    fn cut_off(&self, user: &str) {
        let before = self.connections();
        let Value::Int(closed) = self.run(&["CLIENT", "KILL", "USER", user]) else {
            panic!("no number");
        };
        self.wait_until("the connections are restored", || self.connections() >= before + closed);
    }

    /// Returns the number of connections that the server has ever received, refused ones among them.
    fn connections(&self) -> i64 {
        let info: String = redis::from_redis_value(self.run(&["INFO", "stats"])).expect("text");
        let count = |line: &str| {
            let number = ["total_connections_received:", "rejected_connections:"];
            let number = number.iter().find_map(|name| line.strip_prefix(name));
            number.map_or(0, |number| number.parse::<i64>().expect("a number"))
        };
        info.lines().map(count).sum()
    }

    /// Sends a command that takes long, on another connection.
    fn keep_busy(&self, args: &[&'static str]) {
        let (mut connection, args) = (connection(&self.redis, "operator"), args.to_vec());
        let busy = std::thread::spawn(move || {
            // A killed script returns an error, which does not matter here.
            let _ = redis::cmd(args[0]).arg(&args[1..]).query::<Value>(&mut connection);
        });
        self.busy.lock().expect("the busy thread").replace(busy);
    }

    fn wait_until_refused(&self, code: &str) {
        self.wait_until(code, || {
            let refused = self.ask(&["GET", "nothing"]).err();
            refused.is_some_and(|error| error.code() == Some(code))
        });
    }

    fn has_info_line(&self, section: &str, line: &str) -> bool {
        let info: String = redis::from_redis_value(self.run(&["INFO", section])).expect("text");
        info.lines().any(|info_line| info_line == line)
    }

    fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(20), "not yet: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the keys that would stay for ever.
    pub fn keys_without_ttl(&self) -> Vec<String> {
        let keys: Vec<String> = redis::from_redis_value(self.run(&["KEYS", "*"])).expect("keys");
        let stays = |key: &String| self.run(&["PTTL", key]) == Value::Int(-1) && !key.starts_with("big");
        keys.into_iter().filter(stays).collect()
    }
}

fn connection(redis: &Redis, user: &str) -> redis::Connection {
    redis::Client::open(format!("redis://{user}:pw@127.0.0.1:{}", redis.port))
        .and_then(|client| client.get_connection())
        .expect("a connection")
}

fn token(name: &str) -> String {
    format!("steadlock:{{{name}}}:token")
}

/// Returns the keys in which locks of this name have their holders, for all kinds.
fn records(name: &str) -> [String; 4] {
    let own = |word| format!("steadlock:{{{name}}}:{word}");
    [name.to_owned(), own("rw"), own("rw-readers"), own("semaphore")]
}
