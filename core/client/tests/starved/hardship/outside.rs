//! The server of the clients, the proxies and the host name that lead to it, and the hardships that strike them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use steadlock_protocol::Reply;

use super::NAME;
use crate::support::hosts::Hosts;
use crate::support::proxy::{ConnectionUse, Proxy};
use crate::support::{Redis, free_port};

const FIRST: &str = "127.0.0.2";
const SECOND: &str = "127.0.0.3";
/// An address at which nothing listens.
const UNUSED: &str = "127.0.0.4";
const REPLICA: &str = "127.0.0.5";
/// Creates the user of some clients, which has all rights except INFO.
const USER: [&str; 9] = ["ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all", "-info"];
/// A busy machine can delay a line of the clients or a check of the records by this time.
const STALL: Duration = Duration::from_secs(3);

pub struct Outside {
    hosts: Hosts,
    server: Arc<Redis>,
    /// A replica of the server. In some hardships the host name leads to it.
    _replica: Redis,
    proxies: Vec<Proxy>,
    port: u16,
    holds: Arc<Holds>,
    /// The thread that checks the records; it keeps the server alive too. `None` only while `Outside` is dropped.
    checker: Option<JoinHandle<()>>,
}

/// The leases that the clients have reported as held.
#[derive(Default)]
struct Holds {
    live: Mutex<HashMap<String, Hold>>,
    is_over: AtomicBool,
}

struct Hold {
    lock: String,
    lease: Duration,
    /// The time at which its record was first missing.
    missing_since: Option<Instant>,
}

impl Outside {
    pub fn start(hosts: Hosts) -> Self {
        let server = Arc::new(Redis::start());
        let replica = Redis::start();
        for one in [&*server, &replica] {
            one.run(&USER);
        }
        replica.run(&["REPLICAOF", "127.0.0.1", &server.port.to_string()]);
        let port = free_port();
        let proxies = vec![
            Proxy::at(FIRST, port, server.port),
            Proxy::at(SECOND, port, server.port),
            Proxy::at(REPLICA, port, replica.port),
        ];
        let holds = Arc::new(Holds::default());
        let (of_thread, server_of_thread) = (Arc::clone(&holds), Arc::clone(&server));
        let checker = thread::spawn(move || of_thread.check(&server_of_thread));
        let this = Self {
            hosts,
            server,
            _replica: replica,
            proxies,
            port,
            holds,
            checker: Some(checker),
        };
        this.point_name_at(&[FIRST, SECOND]);
        this
    }

    /// Returns the port, which is the same at every address.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Handles a line that the clients' process printed.
    pub fn handle_line(&self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["hold", id, lock, millis] => self.holds.add(id, lock, millis),
            ["over", id] => self.holds.remove(id),
            ["do", "lead", ref addresses @ ..] => {
                self.point_name_at(&addresses.iter().map(|at| address(at)).collect::<Vec<_>>())
            }
            ["do", "cut", what] => self.cut(what),
            ["do", "kill"] => self.kill(),
            ["do", "refuse"] => self.proxies[..2].iter().for_each(Proxy::refuse),
            ["do", "pause"] => self.server.pause(),
            ["do", "remove", lock] => drop(self.server.run(&["DEL", lock])),
            ["do", "calm"] => self.end_hardships(),
            _ => println!("{line}"),
        }
    }

    /// Checks at the end that every key on the server has a TTL, so that it expires by itself.
    pub fn end(self) {
        self.end_hardships();
        let Reply::Array(keys) = self.server.run(&["KEYS", "*"]) else {
            panic!("no keys")
        };
        let keys: Vec<String> = keys.into_iter().filter_map(text).collect();
        for key in &keys {
            assert_ne!(self.server.run(&["PTTL", key]), Reply::Int(-1), "{key} stays for ever");
        }
        println!("keys left, each with a TTL: {}", keys.len());
    }

    fn point_name_at(&self, addresses: &[&str]) {
        self.hosts.lead(&[(NAME, addresses)]);
    }

    fn cut(&self, what: &str) {
        for proxy in &self.proxies {
            match what {
                "commands" => proxy.cut(ConnectionUse::Commands),
                "renewals" => proxy.cut(ConnectionUse::Renewals),
                "messages" => proxy.cut(ConnectionUse::Subscriptions),
                _ => proxy.cut_all(),
            }
        }
    }

    fn kill(&self) {
        for kind in ["normal", "pubsub"] {
            self.server.run(&["CLIENT", "KILL", "TYPE", kind]);
        }
    }

    fn end_hardships(&self) {
        self.server.resume();
        for proxy in &self.proxies[..2] {
            proxy.lead_to(self.server.port);
        }
        self.point_name_at(&[FIRST, SECOND]);
    }
}

/// Ends the thread that checks the records. The server stops only when that thread has dropped it too.
impl Drop for Outside {
    fn drop(&mut self) {
        self.server.resume();
        self.holds.is_over.store(true, Ordering::Relaxed);
        if let Some(checker) = self.checker.take() {
            let _ = checker.join();
        }
    }
}

fn address(name: &str) -> &'static str {
    match name {
        "first" => FIRST,
        "second" => SECOND,
        "replica" => REPLICA,
        "unused" => UNUSED,
        other => panic!("{other} is no address"),
    }
}

fn text(reply: Reply) -> Option<String> {
    let Reply::Bytes(bytes) = reply else { return None };
    String::from_utf8(bytes).ok()
}

impl Holds {
    fn add(&self, id: &str, lock: &str, millis: &str) {
        let hold = Hold {
            lock: lock.into(),
            lease: Duration::from_millis(millis.parse().expect("milliseconds")),
            missing_since: None,
        };
        self.live.lock().expect("no panic").insert(id.into(), hold);
    }

    fn remove(&self, id: &str) {
        self.live.lock().expect("no panic").remove(id);
    }

    /// Checks repeatedly whether the record of each hold exists.
    fn check(&self, server: &Redis) {
        let mut connection = server.connection();
        while !self.is_over.load(Ordering::Relaxed) {
            let mut locks: Vec<String> = Vec::new();
            for hold in self.live.lock().expect("no panic").values() {
                locks.push(hold.lock.clone());
            }
            let mut pipe = redis::pipe();
            for lock in &locks {
                pipe.cmd("EXISTS").arg(lock);
            }
            match pipe.query::<Vec<bool>>(&mut connection) {
                Ok(there) => self.record_missing(&locks.iter().zip(there).collect()),
                // A hardship has killed this connection too.
                Err(_) => connection = server.connection(),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn record_missing(&self, there: &HashMap<&String, bool>) {
        for (id, hold) in &mut *self.live.lock().expect("no panic") {
            match there.get(&hold.lock) {
                Some(true) => hold.missing_since = None,
                Some(false) => {
                    let missing_since = *hold.missing_since.get_or_insert_with(Instant::now);
                    if missing_since.elapsed() > hold.lease + STALL {
                        println!(
                            "FAILED: the record of {} is gone, but hold {id} is not reported lost",
                            hold.lock
                        );
                        std::process::exit(1);
                    }
                }
                None => {}
            }
        }
    }
}
