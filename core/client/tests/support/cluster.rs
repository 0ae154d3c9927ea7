//! A cluster of three primaries with a replica each, as `./ci/just servers cluster` starts it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use leasehold_protocol::Reply;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::convert;
use super::version::Version;

/// A cluster, whose servers are stopped when it is dropped.
pub struct Cluster {
    rig: Child,
    /// The rig stops when this closes.
    stdin: Option<ChildStdin>,
    pub url: String,
    pub nodes: Vec<Node>,
}

/// One of its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub port: u16,
    pid: Pid,
}

impl Cluster {
    pub fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut rig = Command::new(root.join(".tools/venv/bin/python"))
            .arg(root.join("ci/servers"))
            .args(["cluster", "--json", "--until-stdin-closes"])
            .env("LEASEHOLD_TEST_SERVER", Version::chosen().name())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ci/servers, which `./ci/just test-core` prepares");
        let mut line = String::new();
        let stdout = rig.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let told: Value = serde_json::from_str(&line).expect("the rig is up");
        let nodes = told["nodes"].as_array().expect("nodes").iter().map(Node::read);
        Self {
            nodes: nodes.collect(),
            url: told["urls"][0].as_str().expect("a URL").into(),
            stdin: rig.stdin.take(),
            rig,
        }
    }

    /// The primary that has a name's slot, as all nodes that answer say.
    pub fn owner(&self, name: &str) -> Option<&Node> {
        let slot = self.slot(name);
        let mut owners: Vec<u16> = self.nodes.iter().filter_map(|node| node.owner(slot)).collect();
        owners.dedup();
        let &[port] = &owners[..] else { return None };
        self.nodes.iter().find(|node| node.port == port)
    }

    /// A name `{prefix}-{number}` whose slot is the primary's at `node`.
    pub fn name_at(&self, node: &Node, prefix: &str) -> String {
        let mut names = (0..).map(|number| format!("{prefix}-{number}"));
        let is_there = |name: &String| node.owner(self.slot(name)) == Some(node.port);
        names.find(is_there).expect("names enough")
    }

    /// The slot of a name, as a server computes it.
    pub fn slot(&self, name: &str) -> u16 {
        let mut answers = self
            .nodes
            .iter()
            .filter_map(|node| node.try_run(&["CLUSTER", "KEYSLOT", name]).ok());
        let Some(Reply::Int(slot)) = answers.next() else {
            panic!("no node answers")
        };
        u16::try_from(slot).expect("a slot")
    }

    pub fn primaries(&self) -> Vec<Node> {
        self.nodes.iter().filter(|node| node.is_primary()).cloned().collect()
    }

    /// Begins to move a slot: what is not at `from` any more is asked for at `to`.
    pub fn begin_move(&self, slot: u16, from: &Node, to: &Node) {
        let slot = slot.to_string();
        to.run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from.id()]);
        from.run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to.id()]);
    }

    /// Moves the keys that a slot has; says how many.
    pub fn move_keys(&self, slot: u16, from: &Node, to: &Node) -> usize {
        let Reply::Array(keys) = from.run(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1000"]) else {
            panic!("no keys");
        };
        let keys: Vec<String> = keys
            .into_iter()
            .map(|key| match key {
                Reply::Bytes(key) => String::from_utf8(key).expect("text"),
                other => panic!("{other:?}"),
            })
            .collect();
        if !keys.is_empty() {
            let port = to.port.to_string();
            let mut args = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            args.extend(keys.iter().map(String::as_str));
            from.run(&args);
        }
        keys.len()
    }

    /// Ends the move of a slot whose keys have moved.
    pub fn end_move(&self, slot: u16, from: &Node, to: &Node) {
        let (slot, id) = (slot.to_string(), to.id());
        let others = self.nodes.iter().filter(|node| *node != from && *node != to);
        for node in [to, from].into_iter().chain(others) {
            // Replicas refuse it, and hear of it from the others.
            let _ = node.try_run(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
    }

    /// The replica of a primary.
    pub fn replica_of(&self, primary: &Node) -> Option<Node> {
        let id = primary.id();
        let told = primary.text(&["CLUSTER", "NODES"]);
        let line = told.lines().find(|line| line.contains("slave") && line.contains(&id))?;
        let address = line.split(' ').nth(1)?.split('@').next()?;
        let port: u16 = address.rsplit_once(':')?.1.parse().ok()?;
        self.nodes.iter().find(|node| node.port == port).cloned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.rig.wait();
    }
}

impl Node {
    fn read(told: &Value) -> Self {
        let number = |name: &str| told[name].as_i64().expect("a number");
        Self {
            port: u16::try_from(number("port")).expect("a port"),
            pid: Pid::from_raw(i32::try_from(number("pid")).expect("a pid")).expect("a pid"),
        }
    }

    pub fn try_run(&self, args: &[&str]) -> redis::RedisResult<Reply> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let mut connection = client.get_connection_with_timeout(std::time::Duration::from_secs(2))?;
        connection.set_read_timeout(Some(std::time::Duration::from_secs(2)))?;
        redis::cmd(args[0]).arg(&args[1..]).query(&mut connection).map(convert)
    }

    pub fn run(&self, args: &[&str]) -> Reply {
        self.try_run(args).expect("the server refused")
    }

    pub fn id(&self) -> String {
        self.text(&["CLUSTER", "MYID"])
    }

    pub fn text(&self, args: &[&str]) -> String {
        let Reply::Bytes(text) = self.run(args) else {
            panic!("no text")
        };
        String::from_utf8(text).expect("text")
    }

    /// How far its data has come, as replication counts.
    pub fn offset(&self) -> Option<i64> {
        let Ok(Reply::Array(role)) = self.try_run(&["ROLE"]) else {
            return None;
        };
        match role.get(if role.len() == 3 { 1 } else { 4 })? {
            &Reply::Int(offset) => Some(offset),
            _ => None,
        }
    }

    pub fn is_primary(&self) -> bool {
        let Ok(Reply::Array(role)) = self.try_run(&["ROLE"]) else {
            return false;
        };
        role.first() == Some(&Reply::Bytes(b"master".to_vec()))
    }

    /// The port of a slot's owner, by what this one knows.
    pub fn owner(&self, slot: u16) -> Option<u16> {
        let Ok(Reply::Array(ranges)) = self.try_run(&["CLUSTER", "SLOTS"]) else {
            return None;
        };
        ranges.iter().find_map(|range| {
            let Reply::Array(parts) = range else { return None };
            let [Reply::Int(first), Reply::Int(last), Reply::Array(owner), ..] = &parts[..] else {
                return None;
            };
            let &Reply::Int(port) = owner.get(1)? else { return None };
            (*first..=*last)
                .contains(&i64::from(slot))
                .then(|| u16::try_from(port).ok())?
        })
    }

    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Stops the process as a debugger would: it keeps its connections and says nothing.
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
