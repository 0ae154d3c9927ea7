//! Servers to test against: the embedded store, and a redis-server of one's own.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod clock_offset;
pub mod cluster;
pub mod crowd;
pub mod fake_sentinel;
pub mod hosts;
pub mod proxy;
pub mod rig;
pub mod sentinel;
pub mod version;

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clock_offset::ClockOffset;
use rustix::process::{Pid, Signal, kill_process};
use steadlock::{Client, ReleaseOutcome};
use steadlock_protocol::Reply;
use steadlock_store::Embedded;
use version::Version;

/// What a server says about itself, in its directory.
const LOG: &str = "server.log";
/// How far the port of a node's bus is above that of the node.
const BUS: u16 = 10_000;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A server of either kind, and what a test does to it behind the client's back.
pub enum Server {
    Memory { store: Embedded, name: String },
    Redis(Redis),
}

impl Server {
    pub fn memory() -> Self {
        let name = format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        // The name that the client's transport gives it.
        let store = Embedded::named(&format!("{name}@{}", std::process::id()));
        Self::Memory { store, name }
    }

    pub fn redis() -> Self {
        Self::Redis(Redis::start())
    }

    pub fn url(&self) -> String {
        match self {
            Self::Memory { name, .. } => format!("memory://{name}"),
            Self::Redis(redis) => redis.url(),
        }
    }

    /// Runs a command as another client would.
    pub fn run(&self, args: &[&str]) -> Reply {
        match self {
            Self::Memory { store, .. } => store.execute(args).expect("the store refused").into(),
            Self::Redis(redis) => redis.run(args),
        }
    }

    pub fn exists(&self, key: &str) -> bool {
        self.run(&["EXISTS", key]) == Reply::Int(1)
    }
}

/// Where a server's files of this name may be. In memory, if the system has that and nobody chose another place: a
/// node and a sentinel answer nobody while they write to a disk what they know, which on a busy one takes seconds.
pub fn temporary(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let is_chosen = std::env::var_os("TMPDIR").is_some();
    if is_chosen || !memory.is_dir() {
        std::env::temp_dir()
    } else {
        memory
    }
    .join(name)
}

/// A redis-server or valkey-server on a free port, stopped when dropped.
pub struct Redis {
    version: Version,
    child: Child,
    pub port: u16,
    directory: PathBuf,
    password: Option<String>,
    clock: ClockOffset,
    /// For questions that are asked again and again.
    kept: Mutex<Option<redis::Connection>>,
}

impl Redis {
    pub fn start() -> Self {
        Self::start_with(&[], None)
    }

    pub fn start_with(args: &[&str], password: Option<&str>) -> Self {
        Self::start_version(Version::chosen(), args, password)
    }

    pub fn start_version(version: Version, args: &[&str], password: Option<&str>) -> Self {
        Self::start_at(free_port, version, args, password)
    }

    /// The system's, whose wall clock is wrong.
    pub fn start_with_clock(clock: ClockOffset, args: &[&str]) -> Self {
        Self::start_as(free_port, (Version::System, clock), args, None)
    }

    /// One that can be started again as the node of a cluster: until the listener is dropped it keeps the
    /// port of the cluster's bus free of others.
    pub fn start_with_room_for_a_bus() -> (Self, TcpListener) {
        let server = Self::start_at(free_node_port, Version::chosen(), &[], None);
        match TcpListener::bind(("127.0.0.1", server.port + BUS)) {
            Ok(bus) => (server, bus),
            Err(_) => Self::start_with_room_for_a_bus(),
        }
    }

    /// A node that has all slots of a cluster of its own.
    pub fn start_cluster(version: Version, args: &[&str]) -> Self {
        let node = Self::start_node(version, args);
        node.own_slots(0..16_384);
        node.wait_until_served();
        node
    }

    /// A node of a cluster that has no slots yet. `CLUSTER MEET` leads it to others.
    pub fn start_node(version: Version, args: &[&str]) -> Self {
        let cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", "15000"];
        Self::start_at(free_node_port, version, &[&cluster, args].concat(), None)
    }

    /// Gives these slots of a cluster to this node.
    pub fn own_slots(&self, slots: std::ops::Range<u16>) {
        let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
        let mut add = vec!["CLUSTER", "ADDSLOTS"];
        add.extend(slots.iter().map(String::as_str));
        self.run(&add);
    }

    /// Waits until the node's cluster serves all slots: a node that has just started waits for a moment.
    pub fn wait_until_served(&self) {
        let start = Instant::now();
        let is_ok =
            || matches!(self.run(&["CLUSTER", "INFO"]), Reply::Bytes(info) if info.starts_with(b"cluster_state:ok"));
        while !is_ok() {
            assert!(start.elapsed() < Duration::from_secs(30), "the cluster is not served");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts one at such a port, or at another if somebody takes it first.
    fn start_at(port: fn() -> u16, version: Version, args: &[&str], password: Option<&str>) -> Self {
        Self::start_as(port, (version, ClockOffset::default()), args, password)
    }

    fn start_as(
        port: fn() -> u16,
        (version, clock): (Version, ClockOffset),
        args: &[&str],
        password: Option<&str>,
    ) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = temporary(&format!("steadlock-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a temporary directory");
        let port_given = port();
        let mut server = Self {
            child: spawn((version, clock), port_given, &directory, args, password),
            version,
            clock,
            port: port_given,
            directory,
            password: password.map(Into::into),
            kept: Mutex::default(),
        };
        while let Err(log) = server.wait_until_up() {
            assert!(
                log.contains("Address already in use"),
                "the server does not start: {log}"
            );
            server.port = port();
            server.child = spawn((version, clock), server.port, &server.directory, args, password);
        }
        server
    }

    pub fn url(&self) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}", self.port),
            None => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.join("redis.sock")
    }

    pub fn run(&self, args: &[&str]) -> Reply {
        ask(&mut self.connection(), args)
    }

    /// Like [`Redis::run`], by a connection that is kept: for those who look until something is so.
    pub fn look(&self, args: &[&str]) -> Reply {
        let mut kept = self.kept.lock().expect("nobody panicked");
        ask(kept.get_or_insert_with(|| self.connection()), args)
    }

    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url())
            .and_then(|client| client.get_connection())
            .expect("a connection")
    }

    /// How often a command ran, by the server's own count.
    pub fn calls(&self, command: &str) -> u64 {
        let Reply::Bytes(text) = self.run(&["INFO", "commandstats"]) else {
            panic!("INFO gave no text");
        };
        let text = String::from_utf8(text).expect("text");
        let prefix = format!("cmdstat_{command}:calls=");
        text.lines()
            .find_map(|line| line.strip_prefix(&prefix))
            .and_then(|rest| rest.split(',').next())
            .map_or(0, |count| count.parse().expect("a number"))
    }

    /// Stops the process as a debugger would: it keeps its connections and says nothing.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Stops the server; its data is gone.
    pub fn stop(&mut self) {
        self.resume();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again, empty, on the same port.
    pub fn start_again(&mut self) {
        self.start_again_with(&[]);
    }

    /// The same with other options, and with the data that it saved before.
    pub fn start_again_with(&mut self, args: &[&str]) {
        let program = (self.version, self.clock);
        self.child = spawn(program, self.port, &self.directory, args, self.password.as_deref());
        if let Err(log) = self.wait_until_up() {
            panic!("the server does not start again: {log}");
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.expect("a process id"), signal);
    }

    /// Until this process says that it is ready, which another one at its port would not: what it said
    /// instead, if it has ended.
    fn wait_until_up(&mut self) -> Result<(), String> {
        let start = Instant::now();
        let log = self.directory.join(LOG);
        loop {
            let said = String::from_utf8_lossy(&std::fs::read(&log).expect("a log")).into_owned();
            if said.contains("Ready to accept connections") {
                return Ok(());
            }
            if self.child.try_wait().expect("a child").is_some() {
                return Err(said);
            }
            let limit = Duration::from_secs(30);
            assert!(start.elapsed() < limit, "the server does not start: {said}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl rig::Node {
    /// A server of the test's own, for what a rig's servers can do. It holds until that one is started again.
    pub fn of(server: &Redis) -> Self {
        Self::of_process("primary", server.port, &server.child)
    }
}

fn spawn(
    (version, clock): (Version, ClockOffset),
    port: u16,
    directory: &PathBuf,
    args: &[&str],
    password: Option<&str>,
) -> Child {
    let mut command = Command::new(version.program());
    clock.apply(&mut command);
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--unixsocket", "redis.sock"])
        .args(args)
        .current_dir(directory)
        .stdout(File::create(directory.join(LOG)).expect("a log"))
        .stderr(Stdio::null());
    if let Some(password) = password {
        command.args(["--requirepass", password]);
    }
    command.spawn().expect("a server")
}

/// A port that nobody listens on. It is none of those that systems give to outgoing connections, of which
/// one might take it before the server starts.
pub fn free_port() -> u16 {
    loop {
        let number = RandomState::new().build_hasher().finish() % 22_000;
        let port = 10_000 + u16::try_from(number).expect("a port");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The client is granted a lock, and releases it.
pub async fn works(client: &Client, name: &str) {
    let lease = client.lock(name).wait(Duration::from_secs(10)).acquire().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{name}");
}

/// A port that nobody listens on, and that no server of another test is started at meanwhile.
pub fn nobodys_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = std::iter::repeat_with(|| free_port() % 7_000 + 2_000);
    ports.find(is_free).expect("a port")
}

/// One for the node of a cluster, which speaks to the others on the port that is 10,000 higher.
pub fn free_node_port() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let mut ports = std::iter::repeat_with(|| 10_000 + free_port() % 12_000);
    ports
        .find(|port| is_free(*port) && is_free(port + BUS))
        .expect("a port")
}

fn ask(connection: &mut redis::Connection, args: &[&str]) -> Reply {
    let reply = redis::cmd(args[0]).arg(&args[1..]).query(connection);
    convert(reply.expect("the server refused"))
}

fn convert(value: redis::Value) -> Reply {
    match value {
        redis::Value::Nil => Reply::Nil,
        redis::Value::Int(number) => Reply::Int(number),
        redis::Value::BulkString(bytes) => Reply::Bytes(bytes),
        redis::Value::SimpleString(text) | redis::Value::VerbatimString { text, .. } => Reply::Bytes(text.into_bytes()),
        redis::Value::Okay => Reply::Bytes(b"OK".to_vec()),
        redis::Value::Array(items) => Reply::Array(items.into_iter().map(convert).collect()),
        other => panic!("unexpected reply {other:?}"),
    }
}

/// Whether the test has the machine to itself.
pub fn is_timed() -> bool {
    std::env::var("STEADLOCK_TIMED").is_ok()
}

/// How long something may take that takes no longer than `limit` where the test has the machine to itself.
pub fn on_time(limit: Duration) -> Duration {
    /// Of a machine with two processors that six programs of tests share.
    const STALL: Duration = Duration::from_secs(2);
    if is_timed() { limit } else { limit + STALL }
}

/// Waits for something that another thread or the server brings about.
pub async fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
