//! Servers for tests: the embedded store, or a redis-server that the test starts.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod clock_offset;
pub mod cluster;
pub mod crowd;
pub mod fake_sentinel;
pub mod hosts;
pub mod proxy;
pub mod rig;
pub mod sentinel;
pub mod streaming;
pub mod two_servers;
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
use steadlock::{Client, Error, Lease, LostReason, ReleaseOutcome};
use steadlock_protocol::Reply;
use steadlock_store::Embedded;
use version::Version;

/// The server's log, in its directory.
const LOG: &str = "server.log";
/// The distance from a cluster node's port to the port of its bus.
const BUS: u16 = 10_000;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A server of either kind. A test can change its data without the client's knowledge.
pub enum Server {
    Memory { store: Embedded, name: String },
    Redis(Redis),
}

impl Server {
    pub fn memory() -> Self {
        let name = format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        // The client's transport derives the same name.
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

    /// Runs a command like another client.
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

/// Returns a path for a server's files: in memory if the system has `/dev/shm` and TMPDIR is not set.
///
/// Cluster nodes and sentinels send no replies while they write their state to disk, which can take seconds on a busy
/// disk.
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
    /// A connection that is kept open, for tests that repeat a command until its reply changes.
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

    /// Starts the system's server with a wrong wall clock.
    pub fn start_with_clock(clock: ClockOffset, args: &[&str]) -> Self {
        Self::start_as(free_port, (Version::System, clock), args, None)
    }

    /// Starts a server that can be started again as a node of a cluster. The returned listener reserves the port of the
    /// bus for that node, until the listener is dropped.
    pub fn start_with_reserved_bus_port() -> (Self, TcpListener) {
        let server = Self::start_at(free_node_port, Version::chosen(), &[], None);
        match TcpListener::bind(("127.0.0.1", server.port + BUS)) {
            Ok(bus) => (server, bus),
            Err(_) => Self::start_with_reserved_bus_port(),
        }
    }

    /// Starts a cluster of one node, which has all slots.
    pub fn start_cluster(version: Version, args: &[&str]) -> Self {
        let node = Self::start_node(version, args);
        node.own_slots(0..16_384);
        node.wait_until_served();
        node
    }

    /// Starts a cluster node without slots. `CLUSTER MEET` connects it to others.
    pub fn start_node(version: Version, args: &[&str]) -> Self {
        let cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", "15000"];
        Self::start_at(free_node_port, version, &[&cluster, args].concat(), None)
    }

    /// Assigns these slots of the cluster to this node.
    pub fn own_slots(&self, slots: std::ops::Range<u16>) {
        let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
        let mut add = vec!["CLUSTER", "ADDSLOTS"];
        add.extend(slots.iter().map(String::as_str));
        self.run(&add);
    }

    /// Waits until the node's cluster serves all slots. A node refuses commands for a moment after its start.
    pub fn wait_until_served(&self) {
        let start = Instant::now();
        let is_ok =
            || matches!(self.run(&["CLUSTER", "INFO"]), Reply::Bytes(info) if info.starts_with(b"cluster_state:ok"));
        while !is_ok() {
            assert!(start.elapsed() < Duration::from_secs(30), "the cluster is not served");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts a server at a port that `port` returns. If another program takes that port first, calls `port` again.
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
        let first_port = port();
        let mut server = Self {
            child: spawn((version, clock), first_port, &directory, args, password),
            version,
            clock,
            port: first_port,
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

    /// Runs a command like [`Redis::run`], on a connection that is kept open. For tests that repeat a command until its
    /// reply changes.
    pub fn run_on_kept_connection(&self, args: &[&str]) -> Reply {
        let mut kept = self.kept.lock().expect("no panic");
        ask(kept.get_or_insert_with(|| self.connection()), args)
    }

    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url())
            .and_then(|client| client.get_connection())
            .expect("a connection")
    }

    /// Returns the number of calls of a command, as the server counts them.
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

    /// Returns the number of script calls, as the server counts them.
    pub fn scripts_called(&self) -> u64 {
        self.calls("evalsha") + self.calls("eval")
    }

    /// Suspends the process as a debugger does: it keeps its connections and sends nothing.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the server. Its data is lost.
    pub fn stop(&mut self) {
        self.resume();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts the server again on the same port, without data.
    pub fn start_again(&mut self) {
        self.start_again_with(&[]);
    }

    /// Starts the server again with other options, and with the data that it has saved before.
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

    /// Waits until the server's log reports that the server is ready. A connection would not prove that: another
    /// process may have the port. Returns the log as an error if the server has ended.
    fn wait_until_up(&mut self) -> Result<(), String> {
        let start = Instant::now();
        let log = self.directory.join(LOG);
        loop {
            let text = String::from_utf8_lossy(&std::fs::read(&log).expect("a log")).into_owned();
            if text.contains("Ready to accept connections") {
                return Ok(());
            }
            if self.child.try_wait().expect("a child").is_some() {
                return Err(text);
            }
            let limit = Duration::from_secs(30);
            assert!(start.elapsed() < limit, "the server does not start: {text}");
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
    /// Returns a node for a server that the test has started. The node is valid until that server is started again.
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

/// Returns a free port below 32000. Systems give higher ports to outgoing connections, and such a connection could use
/// the port before the server starts.
pub fn free_port() -> u16 {
    loop {
        let number = RandomState::new().build_hasher().finish() % 22_000;
        let port = 10_000 + u16::try_from(number).expect("a port");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Checks that the client can acquire and release a lock.
pub async fn check_lock(client: &Client, name: &str) {
    let lease = client.lock(name).wait(Duration::from_secs(20)).acquire().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{name}");
}

/// Returns the error of a call that must fail.
pub fn refusal(result: Result<impl Sized, Error>) -> Error {
    result.err().expect("a refusal")
}

/// Releases a lease that must still be valid.
pub async fn check_released(lease: Lease) {
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
}

/// Waits until a lease is lost, and returns the reason.
pub async fn lost_within(lease: &Lease, limit: Duration) -> LostReason {
    let lost = tokio::time::timeout(limit, lease.lost()).await;
    lost.unwrap_or_else(|_| panic!("{} is not lost within {limit:?}", lease.name()))
}

/// Returns a port on which nothing listens, outside of the range in which other tests start servers.
pub fn unused_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = std::iter::repeat_with(|| free_port() % 7_000 + 2_000);
    ports.find(is_free).expect("a port")
}

/// Returns a free port for a cluster node, whose bus port (10,000 higher) is free too.
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

/// Whether this test runs alone on the machine (`STEADLOCK_TIMED`).
pub fn is_timed() -> bool {
    std::env::var("STEADLOCK_TIMED").is_ok()
}

/// Returns `limit` if this test runs alone on the machine, and more if other tests run at the same time.
pub fn on_time(limit: Duration) -> Duration {
    /// The longest delay on a machine with two processors that six test programs share.
    const STALL: Duration = Duration::from_secs(2);
    if is_timed() { limit } else { limit + STALL }
}

/// Waits for a condition that another thread or the server makes true.
pub async fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
