//! Runs the behaviour suite that every language runs: `ci/behaviour/scenarios.json`.

mod support;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use steadlock::{Client, Error, ErrorKind, Lease, Lock, LostReason, ReleaseOutcome};
use support::rig::Rig;
use support::{Redis, free_port, version};
use tokio::task::JoinHandle;

const SCENARIOS: &str = include_str!("../../../ci/behaviour/scenarios.json");
/// The transports to test if `STEADLOCK_BEHAVIOUR` names none.
const ALL: &str = "memory,serve,redis,sentinel,tls-sentinel,cluster,tls-cluster";
const DEFAULT_WAIT: u64 = 5_000;
/// The number of scenarios that run concurrently, each with its own lock.
const PARALLEL: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scenario_holds_for_every_kind_on_every_transport() {
    let suite: Value = serde_json::from_str(SCENARIOS).expect("JSON");
    let wanted = std::env::var("STEADLOCK_BEHAVIOUR").unwrap_or_else(|_| ALL.into());
    for transport in wanted.split(',') {
        let servers = [(); 3].map(|()| Server::start(transport));
        let server = match &servers[0] {
            Server::Redis(redis) => version::of(redis),
            Server::Rig(_) => format!("{transport}, {}", version::Version::chosen()),
            _ => transport.into(),
        };
        let urls: Vec<String> = servers.iter().enumerate().map(|(at, server)| server.url(at)).collect();
        let authorities = authorities(&servers);
        let authority = authorities.as_deref();
        let mut runs = Vec::new();
        for scenario in suite["scenarios"].as_array().expect("scenarios") {
            let skipped = scenario["skip_without_implicit_owner"].as_array();
            for kind in scenario["kinds"].as_array().expect("kinds") {
                if skipped.is_none_or(|kinds| !kinds.contains(kind)) {
                    runs.push((runs.len(), scenario, kind.as_str().expect("a kind")));
                }
            }
        }
        let count = runs.len();
        // Scenarios wait most of their time, so they run concurrently.
        stream::iter(runs)
            .for_each_concurrent(PARALLEL, async |(number, scenario, kind)| {
                let mut run = Run::new(&urls, authority, scenario, kind, number).await;
                for step in scenario["steps"].as_array().expect("steps") {
                    run.step(step).await;
                }
                for client in run.clients {
                    client.close().await;
                }
            })
            .await;
        // Bypasses `println`, whose output appears only for failed tests.
        writeln!(std::io::stderr(), "behaviour suite, rust, {server}: {count} scenarios").expect("stderr");
        assert!(count >= 300, "{count} scenarios");
        if let Some(file) = &authorities {
            std::fs::remove_file(file).expect("removed");
        }
    }
}

/// Writes one file with the certificates of all authorities, since each rig has its own authority.
fn authorities(servers: &[Server]) -> Option<PathBuf> {
    let own = servers.iter().filter_map(Server::authority);
    let texts: Vec<String> = own.map(|file| std::fs::read_to_string(file).expect("PEM")).collect();
    let file = std::env::temp_dir().join(format!("steadlock-authorities-{}.pem", std::process::id()));
    (!texts.is_empty()).then(|| {
        std::fs::write(&file, texts.concat()).expect("written");
        file
    })
}

/// A server of one transport.
enum Server {
    Memory,
    Serve(Child, u16),
    Redis(Redis),
    Rig(Rig),
}

impl Server {
    fn start(transport: &str) -> Self {
        match transport {
            "memory" => Self::Memory,
            "redis" => Self::Redis(Redis::start()),
            "sentinel" | "tls-sentinel" | "cluster" | "tls-cluster" => Self::Rig(Rig::start(transport)),
            "serve" => {
                let port = free_port();
                let child = Command::new(steadlock())
                    .args(["serve", "--port", &port.to_string()])
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("steadlock serve");
                let start = Instant::now();
                while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
                    assert!(
                        start.elapsed() < Duration::from_secs(10),
                        "steadlock serve does not start"
                    );
                    std::thread::sleep(Duration::from_millis(5));
                }
                Self::Serve(child, port)
            }
            other => panic!("no transport {other:?}"),
        }
    }

    fn url(&self, number: usize) -> String {
        match self {
            Self::Memory => format!("memory://behaviour-{}-{number}", std::process::id()),
            Self::Serve(_, port) => format!("redis://127.0.0.1:{port}"),
            Self::Redis(redis) => redis.url(),
            Self::Rig(rig) => rig.url.clone(),
        }
    }

    fn authority(&self) -> Option<&Path> {
        match self {
            Self::Rig(rig) => rig.authority.as_deref(),
            Self::Memory | Self::Serve(..) | Self::Redis(_) => None,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Self::Serve(child, _) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the path of the command `steadlock`: the value of `STEADLOCK_COMMAND`, or one that this function builds.
fn steadlock() -> PathBuf {
    if let Some(given) = std::env::var_os("STEADLOCK_COMMAND") {
        return given.into();
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "steadlock-cli"])
        .status()
        .expect("cargo");
    assert!(built.success());
    // The command is in the parent of `deps`, the folder of this test's program.
    let own = std::env::current_exe().expect("a path");
    let deps = own.parent().expect("a folder");
    deps.parent().expect("a folder").join("steadlock")
}

/// The run of one scenario for one kind of lock.
struct Run {
    /// The current place, for the messages of failures.
    at: String,
    kind: String,
    name: String,
    limit: u32,
    clients: Vec<Client>,
    locks: HashMap<String, Lock>,
    leases: HashMap<String, Held>,
    tokens: HashMap<String, Option<u64>>,
    calls: HashMap<String, JoinHandle<Result<Lease, Error>>>,
}

/// A lease, or the outcome of its release.
enum Held {
    Lease(Lease),
    Released(ReleaseOutcome),
}

impl Run {
    async fn new(urls: &[String], authority: Option<&Path>, scenario: &Value, kind: &str, number: usize) -> Self {
        let mut clients = Vec::new();
        for _ in 0..2 {
            let mut options = match kind {
                "redlock" => Client::builder().primaries(urls),
                _ => Client::builder().url(&urls[0]),
            };
            if let Some(file) = authority {
                options = options.tls_ca_file(file);
            }
            if let Some(lease) = scenario["lease_ms"].as_u64() {
                options = options.lease(Duration::from_millis(lease));
            }
            clients.push(options.connect().await.expect("connected"));
        }
        Self {
            at: format!("{} ({kind})", scenario["name"]),
            kind: kind.into(),
            name: format!("behaviour-{number}"),
            limit: number_of(&scenario["limit"]).unwrap_or(1),
            clients,
            locks: HashMap::new(),
            leases: HashMap::new(),
            tokens: HashMap::new(),
            calls: HashMap::new(),
        }
    }

    async fn step(&mut self, step: &Value) {
        let at = format!("{}: {step}", self.at);
        let what = step["do"].as_str().expect("a step");
        match what {
            "acquire" | "try" | "reenter" => {
                let result = self.acquire(what, step).await;
                self.settle(step, result, &at);
            }
            "race" => self.race(step, &at).await,
            "start" => {
                let lock = self.lock(step);
                let lock = wait(lock, step, None);
                let mut call = Box::pin(async move { lock.acquire().await });
                // The first poll makes the call, so it precedes the calls of the next step.
                let mut early = None;
                poll_fn(|context| {
                    if let Poll::Ready(result) = call.as_mut().poll(context) {
                        early = Some(result);
                    }
                    Poll::Ready(())
                })
                .await;
                let call = async move {
                    match early {
                        Some(result) => result,
                        None => call.await,
                    }
                };
                self.calls.insert(text(step, "as"), tokio::spawn(call));
            }
            "await" => {
                let call = self.calls.remove(&text(step, "call")).expect("a call");
                let limit = Duration::from_millis(step["within_ms"].as_u64().unwrap_or(DEFAULT_WAIT));
                let result = tokio::time::timeout(limit, call).await;
                let result = result
                    .unwrap_or_else(|_| panic!("not in time: {at}"))
                    .expect("no panic");
                match step["error"].as_str() {
                    Some(kind) => assert_eq!(result.err().map(|error| error.kind().name()), Some(kind), "{at}"),
                    None => {
                        let lease = result.unwrap_or_else(|error| panic!("{at}: {error}"));
                        self.hold(text(step, "call"), lease);
                    }
                }
            }
            "cancel" => {
                let call = self.calls.remove(&text(step, "call")).expect("a call");
                call.abort();
                assert!(call.await.is_err_and(|error| error.is_cancelled()), "{at}");
            }
            "release" => self.release(step, &at).await,
            "leave" => self.leave(step, &at).await,
            "extend" => {
                let by = Duration::from_millis(step["by_ms"].as_u64().expect("by_ms"));
                match (&self.leases[&text(step, "lease")], step["error"].as_str()) {
                    // `release` consumes the lease, so a released one cannot be extended in Rust.
                    (Held::Released(_), Some("NotOwner")) => {}
                    (Held::Lease(lease), error) => {
                        let failure = lease.extend(Some(by)).await.err();
                        assert_eq!(failure.map(|error| error.kind().name()), error, "{at}");
                    }
                    _ => panic!("{at}"),
                }
            }
            // In Rust only the lease tells whether it is held, not the lock object.
            "valid" | "held" => {
                let held = step["lease"].as_str().map(|name| &self.leases[name]);
                let is_valid = matches!(held, Some(Held::Lease(lease)) if lease.is_valid());
                assert_eq!(Some(is_valid), step["is"].as_bool(), "{at}");
            }
            "remaining" => {
                let left = self.lease(step).remaining();
                let bound = |name| Duration::from_millis(step[name].as_u64().expect("a bound"));
                assert!(left >= bound("above") && left <= bound("below"), "{at}: {left:?}");
            }
            "kept" => {
                let millis = |name| Duration::from_millis(step[name].as_u64().expect("a time"));
                let end = Instant::now() + millis("ms");
                while Instant::now() < end {
                    assert!(self.lease(step).is_valid(), "{at}");
                    let holder = self.lock(step).holder().await.expect("an answer").expect("a holder");
                    assert!(holder.remaining.expect("a TTL") <= millis("below"), "{at}: {holder:?}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            "token" => {
                let token = self.lease(step).token();
                match (step["is"].as_str(), step["above"].as_str()) {
                    (Some("none"), _) => assert_eq!(token, None, "{at}"),
                    (_, Some(other)) => assert!(token > self.tokens[other], "{at}"),
                    _ => assert!(token.is_some(), "{at}"),
                }
            }
            "locked" => {
                let end = Instant::now() + Duration::from_millis(step["within_ms"].as_u64().unwrap_or(0));
                while Some(self.lock(step).is_locked().await.expect("an answer")) != step["is"].as_bool() {
                    assert!(Instant::now() < end, "{at}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            "available" => {
                let semaphore = self.client(step).semaphore(&self.name, self.limit);
                let available = semaphore.available().await.expect("an answer");
                assert_eq!(Some(available), number_of(&step["is"]), "{at}");
            }
            "force" => {
                let lock = self.lock(step);
                let was_held = self.client(step).force_release(&lock).await.expect("an answer");
                assert_eq!(Some(was_held), step["is"].as_bool(), "{at}");
            }
            "set_limit" => {
                let limit = number_of(&step["limit"]).expect("a limit");
                let result = self.client(step).set_limit(&self.name, limit).await;
                match step["error"].as_str() {
                    Some(kind) => assert_eq!(result.err().map(|error| error.kind().name()), Some(kind), "{at}"),
                    None => assert_eq!(result.ok(), step["is"].as_bool(), "{at}"),
                }
            }
            "lost" => {
                let limit = Duration::from_millis(step["within_ms"].as_u64().unwrap_or(DEFAULT_WAIT));
                let reason = tokio::time::timeout(limit, self.lease(step).lost()).await;
                let reason: LostReason = reason.unwrap_or_else(|_| panic!("not lost in time: {at}"));
                assert!(is_one_of(step, reason.as_str()), "{at}: {reason:?}");
            }
            "pause" => tokio::time::sleep(Duration::from_millis(step["ms"].as_u64().expect("ms"))).await,
            // In Rust a lease belongs to no task, so the end of a task has no effect.
            "end" => {}
            "close" => self.client(step).close().await,
            other => panic!("no step {other:?}: {at}"),
        }
    }

    /// Acquires the lock as a step says. Returns `None` if another owner holds it.
    async fn acquire(&mut self, what: &str, step: &Value) -> Result<Option<Lease>, Error> {
        let mut lock = self.lock(step);
        if what == "reenter" {
            lock = match &self.leases[&text(step, "within")] {
                Held::Lease(lease) => lock.within(lease),
                Held::Released(_) => panic!("{}: a released lease is entered", self.at),
            };
        }
        match what {
            "try" => self.attempt(&wait(lock, step, Some(0))).await,
            _ => wait(lock, step, None).acquire().await.map(Some),
        }
    }

    /// Makes a single attempt; for RedLock, others while no majority answers. RedLock waits for half a second, and a
    /// virtual machine can stand still for almost as long.
    async fn attempt(&self, lock: &Lock) -> Result<Option<Lease>, Error> {
        let most = if self.kind == "redlock" { 5 } else { 1 };
        let mut outcome = lock.try_acquire().await;
        for _ in 1..most {
            if !matches!(&outcome, Err(error) if error.kind() == ErrorKind::Unavailable) {
                break;
            }
            outcome = lock.try_acquire().await;
        }
        outcome
    }

    fn settle(&mut self, step: &Value, result: Result<Option<Lease>, Error>, at: &str) {
        match (step["error"].as_str(), step["is"].as_str(), result) {
            (Some(kind), _, Err(error)) => assert_eq!(error.kind().name(), kind, "{at}: {error}"),
            (None, Some("refused"), Ok(None)) => {}
            (None, None, Ok(Some(lease))) => self.hold(text(step, "as"), lease),
            (.., other) => panic!("{at}: {other:?}"),
        }
    }

    fn hold(&mut self, name: String, lease: Lease) {
        self.tokens.insert(name.clone(), lease.token());
        self.leases.insert(name, Held::Lease(lease));
    }

    /// Makes single attempts from many tasks at once.
    async fn race(&mut self, step: &Value, at: &str) {
        let racers = (0..number_of(&step["tasks"]).expect("tasks")).map(|number| {
            let mut racer = step.clone();
            racer["client"] = (number % 2).into();
            let lock = wait(self.lock(&racer), step, Some(0));
            tokio::spawn(async move { lock.try_acquire().await })
        });
        let mut granted = 0;
        for call in racers.collect::<Vec<_>>() {
            let result = call.await.expect("no panic");
            if let Some(lease) = result.unwrap_or_else(|error| panic!("{at}: {error}")) {
                granted += 1;
                self.hold(format!("{}{granted}", text(step, "as")), lease);
            }
        }
        assert_eq!(Some(granted), number_of(&step["is"]), "{at}: the number of grants");
    }

    async fn release(&mut self, step: &Value, at: &str) {
        let outcome = self.released(step, at).await;
        if step["is"].is_null() {
            assert_eq!(outcome, ReleaseOutcome::Released, "{at}");
        } else {
            assert!(is_one_of(step, outcome.as_str()), "{at}: {outcome:?}");
        }
    }

    /// Releases a lease. In Rust a lost lease is an outcome of the release, where other languages have an error.
    ///
    /// A step that releases the lock object instead does nothing, as Rust has no such method.
    async fn leave(&mut self, step: &Value, at: &str) {
        if step["lease"].is_null() {
            return;
        }
        let outcome = self.released(step, at).await;
        let is_lost = matches!(outcome, ReleaseOutcome::Expired | ReleaseOutcome::Stolen);
        assert_eq!(is_lost, step["error"].is_string(), "{at}: {outcome:?}");
        assert!(
            step["is"].is_null() || is_one_of(step, outcome.as_str()),
            "{at}: {outcome:?}"
        );
    }

    /// Releases a lease and returns the outcome.
    async fn released(&mut self, step: &Value, at: &str) -> ReleaseOutcome {
        let name = text(step, "lease");
        let outcome = match self.leases.remove(&name).expect("a lease") {
            Held::Lease(lease) => lease.release().await.unwrap_or_else(|error| panic!("{at}: {error}")),
            // `release` consumes the lease, so a second release repeats the outcome of the first.
            Held::Released(outcome) => outcome,
        };
        self.leases.insert(name, Held::Released(outcome));
        outcome
    }

    fn client(&self, step: &Value) -> &Client {
        let number = number_of(&step["client"]).unwrap_or(0) as usize;
        &self.clients[number]
    }

    fn lease(&self, step: &Value) -> &Lease {
        match &self.leases[&text(step, "lease")] {
            Held::Lease(lease) => lease,
            Held::Released(_) => panic!("{}: {step}: a released lease", self.at),
        }
    }

    /// Returns the lock object that the step names, or a new one. Tasks share an object by clones.
    fn lock(&mut self, step: &Value) -> Lock {
        let Some(name) = step["lock"].as_str() else {
            return self.new_lock(step);
        };
        let key = format!("{} {name}", number_of(&step["client"]).unwrap_or(0));
        let lock = match self.locks.get(&key) {
            Some(lock) => lock.clone(),
            None => self.new_lock(step),
        };
        self.locks.insert(key, lock.clone());
        lock
    }

    fn new_lock(&self, step: &Value) -> Lock {
        let client = self.client(step);
        let member = || client.lock(format!("{}:a", self.name));
        let name = &self.name;
        let lock = match step["kind"].as_str().unwrap_or(&self.kind) {
            "lock" | "redlock" => client.lock(name),
            "mutex" => client.mutex(name),
            "fair_lock" => client.fair_lock(name),
            "read_lock" => client.read_write_lock(name).read,
            "write_lock" => client.read_write_lock(name).write,
            "semaphore" => {
                let limit = number_of(&step["limit"]).unwrap_or(self.limit);
                let permits = number_of(&step["permits"]).unwrap_or(1);
                client.semaphore(name, limit).permits(permits)
            }
            "multi" => client.multi_lock([&member(), &client.mutex(format!("{name}:b"))]),
            "member" => member(),
            other => panic!("no kind {other:?}"),
        };
        let millis = |name| step[name].as_u64().map(Duration::from_millis);
        let lock = match millis("lease_ms") {
            Some(lease) => lock.lease(lease),
            None => lock,
        };
        let lock = match step["renew"].as_bool() {
            Some(true) => lock.renewed(),
            _ => lock,
        };
        let lock = match millis("max_hold_ms") {
            Some(most) => lock.max_hold(most),
            None => lock,
        };
        match step["token"].as_bool() {
            Some(false) => lock.without_fencing(),
            _ => lock,
        }
    }
}

fn wait(lock: Lock, step: &Value, default: Option<u64>) -> Lock {
    let millis = step["wait_ms"].as_u64().or(default);
    match millis {
        Some(millis) => lock.wait(Duration::from_millis(millis)),
        None => lock,
    }
}

fn text(step: &Value, name: &str) -> String {
    step[name]
        .as_str()
        .unwrap_or_else(|| panic!("{step} has no {name}"))
        .into()
}

fn number_of(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| number.try_into().ok())
}

/// Whether a word is the one that the step expects, or one of several that it allows.
fn is_one_of(step: &Value, word: &str) -> bool {
    match &step["is"] {
        Value::Array(words) => words.iter().any(|known| known == word),
        known => known == word,
    }
}
