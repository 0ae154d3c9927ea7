//! Nodes that announce IP addresses, and whose certificate has only a name.

use std::path::Path;

use leasehold::{Builder, Client, Error, ErrorKind};

use super::certificates::{Authority, Valid};
use super::support::version::Version;
use super::support::{Redis, free_node_port};
use super::{SOON, works};

/// A node with TLS that has all slots, announces 127.0.0.1, and has a certificate for this name.
struct Named {
    _node: Redis,
    authority: Authority,
    port: u16,
}

impl Named {
    fn start(name: &str) -> Self {
        let (authority, port) = (Authority::new(), free_node_port());
        let pair = authority.sign(&[name], Valid::Now);
        let (ca, port_text) = (authority.file(), port.to_string());
        let node = Redis::start_cluster(
            Version::System,
            &[
                "--tls-port",
                &port_text,
                "--tls-cert-file",
                text(&pair.cert),
                "--tls-key-file",
                text(&pair.key),
                "--tls-ca-cert-file",
                text(&ca),
                "--tls-cluster",
                "yes",
                "--tls-auth-clients",
                "no",
                "--cluster-announce-ip",
                "127.0.0.1",
                "--cluster-announce-tls-port",
                &port_text,
            ],
        );
        Self {
            _node: node,
            authority,
            port,
        }
    }

    fn builder(&self, host: &str) -> Builder {
        Client::builder()
            .url(format!("rediss+cluster://{host}:{}", self.port))
            .tls_ca_file(self.authority.file())
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

async fn no_lock(builder: Builder) -> Error {
    let client = match builder.connect().await {
        Ok(client) => client,
        Err(error) => return error,
    };
    client.lock("a").wait(SOON / 2).acquire().await.expect_err("no way")
}

#[tokio::test]
async fn a_node_that_announces_an_ip_address_is_verified_by_the_name_that_is_given() {
    let named = Named::start("localhost");
    let error = no_lock(named.builder("localhost")).await;
    assert!(error.message().contains("127.0.0.1"), "{error}");
    assert!(error.message().contains("tls_server_name"), "{error}");
    for host in ["localhost", "127.0.0.1"] {
        let client = named
            .builder(host)
            .tls_server_name("localhost")
            .connect()
            .await
            .unwrap();
        works(&client, "a").await;
    }
}

#[tokio::test]
async fn the_name_that_is_given_is_the_only_one_that_will_do() {
    let named = Named::start("localhost");
    let error = no_lock(named.builder("localhost").tls_server_name("cache.example")).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let words = [
        "not for cache.example",
        "localhost",
        "give one of its names as tls_server_name",
    ];
    for word in words {
        assert!(error.message().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_mapped_node_is_verified_by_the_host_that_it_is_reached_at() {
    let named = Named::start("localhost");
    let map = [("127.0.0.1", "localhost")];
    works(
        &named.builder("localhost").address_map(map).connect().await.unwrap(),
        "a",
    )
    .await;
}
