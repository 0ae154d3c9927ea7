//! A primary with two replicas, and three sentinels that watch them.

use std::ops::Deref;

use leasehold_protocol::Reply;

use super::rig::{Node, Rig};

/// The service's name.
pub const SERVICE: &str = "mymaster";

/// Servers and their sentinels, which are stopped when this is dropped.
pub struct Watched(Rig);

impl Deref for Watched {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.0
    }
}

impl Watched {
    pub fn start() -> Self {
        Self(Rig::start("sentinel"))
    }

    /// Servers and sentinels that speak TLS only: a [`Node`] cannot be asked anything.
    pub fn start_with_tls() -> Self {
        Self(Rig::start("tls-sentinel"))
    }

    pub fn sentinels(&self) -> Vec<Node> {
        self.of_role("sentinel")
    }

    /// The primary at the start.
    pub fn primary(&self) -> Node {
        self.of_role("primary").remove(0)
    }

    /// The replicas at the start.
    pub fn replicas(&self) -> Vec<Node> {
        self.of_role("replica")
    }

    /// A URL with these sentinels.
    pub fn url_of(ports: &[u16], service: &str) -> String {
        let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{service}", addresses.join(","))
    }
}

impl Node {
    /// The keys whose name has this in it, in any database of a primary or replica.
    pub fn has_key(&self, name: &str) -> bool {
        matches!(self.try_run(&["KEYS", &format!("*{name}*")]), Ok(Reply::Array(keys)) if !keys.is_empty())
    }

    /// How many scripts clients have called.
    pub fn scripts_called(&self) -> u64 {
        let told = self.text(&["INFO", "commandstats"]);
        let calls = |line: &str| {
            let of = line
                .strip_prefix("cmdstat_evalsha:calls=")
                .or_else(|| line.strip_prefix("cmdstat_eval:calls="))?;
            of.split(',').next()?.parse::<u64>().ok()
        };
        told.lines().filter_map(calls).sum()
    }
}
