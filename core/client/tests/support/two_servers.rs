//! Two servers, and a host name that leads to their addresses.

use std::time::Duration;

use steadlock::{Builder, Client};

use super::proxy::Proxy;
use super::{Redis, eventually, free_port};

pub const LEASE: Duration = Duration::from_secs(4);
pub const NAME: &str = "locks.test";
pub const FIRST: &str = "127.0.0.2";
pub const SECOND: &str = "127.0.0.3";
/// An address at which nothing listens.
pub const UNUSED: &str = "127.0.0.4";

const SOON: Duration = Duration::from_secs(20);
/// The command that creates a user with all rights.
const USER: [&str; 8] = ["ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all"];

/// Two servers at different addresses, with the same port.
pub struct TwoServers {
    pub servers: [Redis; 2],
    pub proxies: [Proxy; 2],
    pub port: u16,
}

impl TwoServers {
    pub fn start() -> Self {
        let servers = [Redis::start(), Redis::start()];
        let port = free_port();
        let proxies = [
            Proxy::at(FIRST, port, servers[0].port),
            Proxy::at(SECOND, port, servers[1].port),
        ];
        Self { servers, proxies, port }
    }

    /// Makes the first server a replica of the second.
    pub fn make_first_a_replica(&self) {
        self.servers[0].run(&["REPLICAOF", "127.0.0.1", &self.servers[1].port.to_string()]);
    }

    /// Gives the user of [`Self::url_of_user`] all rights at both servers, except for these.
    pub fn grant_all_except(&self, rights: &[&str]) {
        let removed: Vec<String> = rights.iter().map(|right| format!("-{right}")).collect();
        let removed: Vec<&str> = removed.iter().map(String::as_str).collect();
        for server in &self.servers {
            server.run(&[&USER[..], &removed].concat());
        }
    }

    /// Creates the user of [`Self::url_of_user`], without the right to read the run id.
    pub fn hide_run_id(&self) {
        self.grant_all_except(&["info"]);
    }

    pub fn url(&self) -> String {
        format!("redis://{NAME}:{}", self.port)
    }

    pub fn url_of_user(&self) -> String {
        format!("redis://locks:secret@{NAME}:{}", self.port)
    }

    pub fn builder(&self) -> Builder {
        Client::builder().url(self.url()).lease(LEASE)
    }

    pub fn builder_of_user(&self) -> Builder {
        Client::builder().url(self.url_of_user()).lease(LEASE)
    }

    /// Whether a connection leads to this server.
    pub fn is_used(&self, server: usize) -> bool {
        self.proxies[server].connections_to(self.servers[server].port) > 0
    }

    /// Waits until no connection leads to this server. A connection that only checked the server may still be closing.
    pub async fn wait_until_unused(&self, server: usize) {
        eventually("no connection leads there", SOON, || !self.is_used(server)).await;
    }
}
