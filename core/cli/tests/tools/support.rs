//! Servers, and the command as a user runs it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use steadlock_protocol::Reply;

#[path = "../../../client/tests/support/rig.rs"]
#[allow(dead_code)]
pub mod rig;

/// The module that `rig` needs: the server version from the environment.
mod version {
    pub struct Version(String);

    impl Version {
        pub fn chosen() -> Self {
            Self(std::env::var("STEADLOCK_TEST_SERVER").unwrap_or_else(|_| "system".into()))
        }

        pub fn name(&self) -> &str {
            &self.0
        }
    }
}

pub use rig::{Node, Rig};

/// Returns the command with these arguments, for these servers.
pub fn command(urls: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadlock"));
    command
        .args(arguments)
        .env("STEADLOCK_URL", urls.join(" "))
        .stdin(Stdio::null());
    command
}

/// Runs the command to its end.
pub fn run(url: &str, arguments: &[&str]) -> Output {
    command(&[url], arguments).output().unwrap()
}

pub fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the JSON that the command prints.
pub fn json(url: &str, arguments: &[&str]) -> Value {
    let output = run(url, &[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {output:?}"))
}

/// Returns the name and kind of each listed lock.
pub fn listed(listing: &Value) -> Vec<(String, String)> {
    let lock = |lock: &Value| {
        let text = |field: &str| lock[field].as_str().unwrap().to_owned();
        (text("name"), text("kind"))
    };
    listing["locks"].as_array().unwrap().iter().map(lock).collect()
}

/// Returns the listed lock with this name.
pub fn lock<'a>(listing: &'a Value, name: &str) -> &'a Value {
    let locks = listing["locks"].as_array().unwrap();
    let found = locks.iter().find(|lock| lock["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {listing}"))
}

/// A `steadlock serve` on a free port, stopped when dropped.
pub struct Served {
    process: Child,
    pub url: String,
}

impl Served {
    pub fn start() -> Self {
        let mut process = command(&[], &["serve", "--port", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line.split_whitespace().last().unwrap().to_owned();
        Self { process, url }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for a condition that another process brings about.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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
