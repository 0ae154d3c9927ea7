//! Tests of nodes that announce IP addresses and whose certificate has only a name.

use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use steadlock::{Builder, Client, Error, ErrorKind};

use super::certificates::{Authority, Valid};
use super::support::sentinel::Sentinel;
use super::support::version::Version;
use super::support::{Redis, free_node_port};
use super::{SOON, check_lock};

/// A node with TLS that has all slots, announces 127.0.0.1, and has a certificate for a given name.
struct Named {
    _node: Redis,
    authority: Authority,
    port: u16,
}

impl Named {
    fn start(name: &str) -> Self {
        Self::start_with(name, &["--tls-auth-clients", "no"])
    }

    /// Starts a node that accepts only clients with a certificate of its authority.
    fn requiring_client_certificate(name: &str) -> Self {
        Self::start_with(name, &["--tls-auth-clients", "yes"])
    }

    fn start_with(name: &str, more: &[&str]) -> Self {
        let (authority, port) = (Authority::new(), free_node_port());
        let pair = authority.sign(&[name], Valid::Now);
        let (ca, port_text) = (authority.file(), port.to_string());
        let node = Redis::start_cluster(
            Version::System,
            &[
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
                    "--cluster-announce-ip",
                    "127.0.0.1",
                    "--cluster-announce-tls-port",
                    &port_text,
                ][..],
                more,
            ]
            .concat(),
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
    client
        .lock("a")
        .wait(SOON / 2)
        .acquire()
        .await
        .expect_err("the connection is refused")
}

#[tokio::test]
async fn a_node_that_announces_an_ip_address_is_verified_by_the_given_name() {
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
        check_lock(&client, "a").await;
    }
}

#[tokio::test]
async fn only_the_given_name_is_accepted() {
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
async fn a_mapped_node_is_verified_by_its_mapped_host() {
    let named = Named::start("localhost");
    let map = [("127.0.0.1", "localhost")];
    check_lock(
        &named.builder("localhost").address_map(map).connect().await.unwrap(),
        "a",
    )
    .await;
}

#[tokio::test]
async fn a_wildcard_certificate_is_accepted_for_each_of_its_names() {
    let named = Named::start("*.cache.example");
    for (name, is_below) in [
        ("pod-0.cache.example", true),
        ("any.cache.example", true),
        ("cache.example", false),
        ("a.b.cache.example", false),
    ] {
        let builder = named.builder("127.0.0.1").tls_server_name(name);
        if is_below {
            check_lock(&builder.connect().await.unwrap(), "a").await;
        } else {
            let error = no_lock(builder).await;
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        }
    }
}

#[tokio::test]
async fn discovered_nodes_get_the_client_certificate_too() {
    let named = Named::requiring_client_certificate("localhost");
    let builder = || named.builder("localhost").tls_server_name("localhost");
    let error = no_lock(builder()).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("tls_cert_file"), "{error}");
    let pair = named.authority.sign(&["worker"], Valid::Now);
    let builder = builder().tls_cert_file(&pair.cert).tls_key_file(&pair.key);
    check_lock(&builder.connect().await.unwrap(), "a").await;
}

#[tokio::test]
async fn sentinels_and_the_primary_that_they_name_get_the_client_certificate() {
    if Version::chosen() != Version::System {
        // Only the system's server speaks TLS.
        return;
    }
    let (authority, port) = (Authority::new(), free_node_port());
    let pair = authority.sign(&["localhost"], Valid::Now);
    let (ca, port_text) = (authority.file(), port.to_string());
    let requiring_client_certificate = |port: &str| {
        let files = [
            ("cert", text(&pair.cert)),
            ("key", text(&pair.key)),
            ("ca-cert", text(&ca)),
        ];
        let files = files.map(|(what, file)| [format!("tls-{what}-file"), file.to_owned()]);
        let port = ["tls-port".to_owned(), port.to_owned()];
        let words = [["tls-auth-clients", "yes"], ["tls-replication", "yes"]];
        let words = words.map(|pair| pair.map(str::to_owned));
        files.into_iter().chain([port]).chain(words).collect::<Vec<_>>()
    };
    let options: Vec<String> = requiring_client_certificate(&port_text)
        .into_iter()
        .flat_map(|[name, value]| [format!("--{name}"), value])
        .collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let _server = Redis::start_version(Version::System, &options, None);
    let sentinel_port = free_node_port();
    let mut lines: Vec<String> = requiring_client_certificate(&sentinel_port.to_string())
        .iter()
        .map(|line| line.join(" "))
        .collect();
    lines.push(format!("sentinel monitor mymaster 127.0.0.1 {port} 1"));
    let _sentinel = Sentinel::start(Ipv4Addr::LOCALHOST.into(), &lines);
    let builder = || {
        let url = format!("rediss+sentinel://localhost:{sentinel_port}/mymaster");
        Client::builder().url(url).tls_ca_file(&ca).tls_server_name("localhost")
    };
    let error = no_lock(builder()).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("tls_cert_file"), "{error}");
    let worker = authority.sign(&["worker"], Valid::Now);
    let builder = builder().tls_cert_file(&worker.cert).tls_key_file(&worker.key);
    check_lock(&builder.connect().await.unwrap(), "a").await;
}

/// Returns the first bytes that a client sends to `localhost` with this scheme, before the server has replied.
async fn greeting(scheme: &str, name: Option<&str>) -> String {
    // Each call has its own port, because the client of an earlier call may connect again.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let service = if scheme.ends_with("sentinel") { "/mymaster" } else { "" };
    let mut builder = Client::builder().url(format!("{scheme}://localhost:{port}{service}"));
    if let Some(name) = name {
        builder = builder.tls_server_name(name);
    }
    let connecting = tokio::spawn(builder.connect());
    let reading = tokio::task::spawn_blocking(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut sent = vec![0; 4_096];
        let count = stream.read(&mut sent).unwrap();
        String::from_utf8_lossy(&sent[..count]).into_owned()
    });
    let sent = reading.await.unwrap();
    connecting.abort();
    sent
}

#[tokio::test]
async fn the_given_name_is_sent_to_all_servers() {
    for scheme in ["rediss", "rediss+cluster", "rediss+sentinel"] {
        let sent = greeting(scheme, None).await;
        assert!(sent.contains("localhost"), "{scheme}");
        let sent = greeting(scheme, Some("pod.cache.example")).await;
        let is_that = sent.contains("pod.cache.example") && !sent.contains("localhost");
        assert!(is_that, "{scheme}");
    }
}
