//! A primary with two replicas, and three sentinels that watch them. Also a single sentinel for servers that the test
//! starts.

use std::net::{IpAddr, TcpStream};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use steadlock_protocol::Reply;

use super::rig::{Node, Rig};
use super::version::Version;
use super::{free_port, temporary};

/// The name under which the sentinels know the primary.
pub const SERVICE: &str = "mymaster";

/// Servers and their sentinels. Dropping this stops them.
pub struct SentinelRig(Rig);

impl Deref for SentinelRig {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.0
    }
}

impl SentinelRig {
    pub fn start() -> Self {
        Self(Rig::start("sentinel"))
    }

    /// Starts servers and sentinels that speak only TLS. The commands of [`Node`] do not work with them.
    pub fn start_with_tls() -> Self {
        Self(Rig::start("tls-sentinel"))
    }

    pub fn sentinels(&self) -> Vec<Node> {
        self.of_role("sentinel")
    }

    /// Returns the server that was the primary when the rig started.
    pub fn primary(&self) -> Node {
        self.of_role("primary").remove(0)
    }

    /// Returns the servers that were replicas when the rig started.
    pub fn replicas(&self) -> Vec<Node> {
        self.of_role("replica")
    }

    /// Returns a URL with these sentinels.
    pub fn url_of(ports: &[u16], service: &str) -> String {
        let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{service}", addresses.join(","))
    }
}

/// A sentinel with its own configuration. Dropping it ends the process.
pub struct Sentinel {
    child: Child,
    pub port: u16,
    file: PathBuf,
}

impl Sentinel {
    /// Starts a sentinel at this address, with these lines in its configuration file.
    pub fn start(address: IpAddr, lines: &[String]) -> Self {
        let port = free_port();
        let file = temporary(&format!("steadlock-sentinel-{}-{port}.conf", std::process::id()));
        std::fs::write(&file, lines.join("\n") + "\n").expect("a file");
        let child = Command::new(Version::chosen().program())
            .arg(&file)
            .args([
                "--sentinel",
                "--bind",
                &address.to_string(),
                "--port",
                &port.to_string(),
            ])
            .stdout(Stdio::null())
            .spawn()
            .expect("a sentinel");
        let sentinel = Self { child, port, file };
        let start = Instant::now();
        while TcpStream::connect((address, port)).is_err() {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "the sentinel does not listen"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        sentinel
    }

    /// Returns a node for this sentinel, which must be at 127.0.0.1.
    pub fn node(&self) -> Node {
        Node::of_process("sentinel", self.port, &self.child)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

impl Node {
    /// Whether the server has a key whose name contains this text.
    pub fn has_key(&self, name: &str) -> bool {
        matches!(self.try_run(&["KEYS", &format!("*{name}*")]), Ok(Reply::Array(keys)) if !keys.is_empty())
    }

    /// Returns the number of script calls by clients.
    pub fn scripts_called(&self) -> u64 {
        let info = self.text(&["INFO", "commandstats"]);
        let calls = |line: &str| {
            let of = line
                .strip_prefix("cmdstat_evalsha:calls=")
                .or_else(|| line.strip_prefix("cmdstat_eval:calls="))?;
            of.split(',').next()?.parse::<u64>().ok()
        };
        info.lines().filter_map(calls).sum()
    }
}
