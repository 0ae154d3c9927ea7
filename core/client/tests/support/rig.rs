//! The servers that `./ci/just servers RIG` starts.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use steadlock_protocol::Reply;

use super::convert;
use super::version::Version;

/// The longest time that a server may take to reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// The servers of one rig. Dropping this stops them.
pub struct Rig {
    child: Child,
    /// The standard input of the rig, which stops when the input closes.
    stdin: Option<ChildStdin>,
    pub url: String,
    pub nodes: Vec<Node>,
    /// The file with the certificate of the authority that signed the servers' certificate.
    pub authority: Option<PathBuf>,
}

/// One server of a rig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The role of the server when the rig started.
    pub role: String,
    pub port: u16,
    pid: Pid,
}

impl Rig {
    pub fn start(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut child = Command::new(root.join(".tools/venv/bin/python"))
            .arg(root.join("ci/servers"))
            .args([name, "--json", "--until-stdin-closes"])
            // Only the system's server, version 7.0, speaks TLS.
            .args(if name.starts_with("tls") {
                &["--server", "7.0"][..]
            } else {
                &[]
            })
            .env("STEADLOCK_TEST_SERVER", Version::chosen().name())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ci/servers, which `./ci/just test-core` prepares");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let description: Value = serde_json::from_str(&line).expect("the rig is up");
        let nodes = description["nodes"].as_array().expect("nodes").iter().map(Node::read);
        Self {
            nodes: nodes.collect(),
            url: description["urls"][0].as_str().expect("a URL").into(),
            authority: description["ca"].as_str().map(Into::into),
            stdin: child.stdin.take(),
            child,
        }
    }

    pub fn of_role(&self, role: &str) -> Vec<Node> {
        self.nodes.iter().filter(|node| node.role == role).cloned().collect()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

impl Node {
    /// Returns a node for a process that listens at this port of 127.0.0.1.
    pub fn of_process(role: &str, port: u16, child: &Child) -> Self {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Self {
            role: role.into(),
            port,
            pid: pid.expect("a process id"),
        }
    }

    fn read(description: &Value) -> Self {
        let number = |name: &str| description[name].as_i64().expect("a number");
        Self {
            role: description["role"].as_str().expect("a role").into(),
            port: u16::try_from(number("port")).expect("a port"),
            pid: Pid::from_raw(i32::try_from(number("pid")).expect("a pid")).expect("a pid"),
        }
    }

    pub fn try_run(&self, args: &[&str]) -> redis::RedisResult<Reply> {
        let mut connection = self.try_connection()?;
        redis::cmd(args[0]).arg(&args[1..]).query(&mut connection).map(convert)
    }

    pub fn connection(&self) -> redis::Connection {
        self.try_connection().expect("a connection")
    }

    fn try_connection(&self) -> redis::RedisResult<redis::Connection> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let connection = client.get_connection_with_timeout(REPLY_TIMEOUT)?;
        connection.set_read_timeout(Some(REPLY_TIMEOUT))?;
        Ok(connection)
    }

    pub fn run(&self, args: &[&str]) -> Reply {
        let answer = match self.try_run(args) {
            // When Sentinel changes a server's role, the server closes every connection.
            Err(error) if error.is_connection_dropped() => self.try_run(args),
            answer => answer,
        };
        answer.expect("the server refused")
    }

    pub fn text(&self, args: &[&str]) -> String {
        let Reply::Bytes(text) = self.run(args) else {
            panic!("no text")
        };
        String::from_utf8(text).expect("text")
    }

    /// Returns the replication offset of the server.
    pub fn offset(&self) -> Option<i64> {
        let Ok(Reply::Array(role)) = self.try_run(&["ROLE"]) else {
            return None;
        };
        match role.get(if role.len() == 3 { 1 } else { 4 })? {
            &Reply::Int(offset) => Some(offset),
            _ => None,
        }
    }

    /// Whether the server says that it is a primary. Returns false if the server does not answer.
    pub fn is_primary(&self) -> bool {
        self.has_role("master")
    }

    /// Whether the server says that it is a replica.
    pub fn is_replica(&self) -> bool {
        self.has_role("slave")
    }

    fn has_role(&self, role: &str) -> bool {
        let reply = self.try_run(&["ROLE"]);
        matches!(reply, Ok(Reply::Array(parts)) if parts.first() == Some(&Reply::Bytes(role.into())))
    }

    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Suspends the process as a debugger does: it keeps its connections and sends nothing.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("a process");
    }
}
