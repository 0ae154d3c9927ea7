//! Tests of `rediss://` and `valkeys://`: the authorities that the client trusts, its certificate, and its errors when
//! one side refuses the other.

#[path = "support/certificates.rs"]
mod certificates;
mod support;

use std::path::Path;
use std::time::Duration;

use certificates::{Authority, Pair, Valid};
use steadlock::{Builder, Client, Error, ErrorKind, ReleaseOutcome};
use support::version::Version;
use support::{Redis, eventually, free_port};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

/// A server with an additional port for TLS.
struct Secure {
    server: Redis,
    port: u16,
}

impl Secure {
    fn start(pair: &Pair, more: &[&str]) -> Self {
        let port = free_port();
        let port_text = port.to_string();
        let mut args = vec!["--tls-port", &port_text];
        args.extend(["--tls-cert-file", text(&pair.cert), "--tls-key-file", text(&pair.key)]);
        args.extend(more);
        Self {
            server: Redis::start_version(Version::System, &args, None),
            port,
        }
    }

    /// Starts a server that accepts only clients with a certificate that `authority` has signed.
    fn requiring_client_certificate(pair: &Pair, authority: &Authority, more: &[&str]) -> Self {
        let ca = authority.file();
        let mut args = vec!["--tls-auth-clients", "yes", "--tls-ca-cert-file", text(&ca)];
        args.extend(more);
        Self::start(pair, &args)
    }

    fn open(pair: &Pair) -> Self {
        Self::start(pair, &["--tls-auth-clients", "no"])
    }

    fn client(&self, host: &str) -> Builder {
        Client::builder().url(format!("rediss://user-x:sesame@{host}:{}", self.port))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Returns a builder that trusts the authority and has no password.
fn trusting(secure: &Secure, authority: &Authority) -> Builder {
    Client::builder()
        .url(format!("rediss://localhost:{}", secure.port))
        .tls_ca_file(authority.file())
}

fn with(builder: Builder, pair: &Pair) -> Builder {
    builder.tls_cert_file(&pair.cert).tls_key_file(&pair.key)
}

/// Returns the error of connecting, after checking that the message has all `words` and no secret.
async fn refusal(builder: Builder, kind: ErrorKind, words: &[&str]) -> Error {
    let error = builder.connect().await.map(drop).expect_err("no client");
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
    }
    assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
    error
}

#[tokio::test]
async fn the_given_authority_is_trusted_by_name_and_by_address() {
    let authority = Authority::new();
    let secure = Secure::open(&authority.here());
    for place in ["rediss://localhost", "rediss://127.0.0.1", "valkeys://localhost"] {
        let client = Client::builder()
            .url(format!("{place}:{}", secure.port))
            .tls_ca_file(authority.file())
            .connect()
            .await
            .unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

#[tokio::test]
async fn an_unknown_authority_is_misconfigured_and_names_the_option() {
    let (authority, other) = (Authority::new(), Authority::new());
    let secure = Secure::open(&authority.here());
    let address = format!("localhost:{}", secure.port);
    let unnamed = secure.client("localhost");
    refusal(
        unnamed,
        ErrorKind::Misconfigured,
        &[&address, "authority", "unknown here", "tls_ca_file"],
    )
    .await;
    let named = secure.client("localhost").tls_ca_file(other.file());
    refusal(
        named,
        ErrorKind::Misconfigured,
        &["authority", "tls_ca_file", text(&other.file())],
    )
    .await;
}

#[tokio::test]
async fn a_certificate_of_another_host_is_misconfigured_and_names_both() {
    let authority = Authority::new();
    let secure = Secure::open(&authority.sign(&["one.example", "two.example"], Valid::Now));
    for host in ["localhost", "127.0.0.1"] {
        let builder = secure.client(host).tls_ca_file(authority.file());
        let words = [host, "for one.example, two.example;"];
        refusal(builder, ErrorKind::Misconfigured, &words).await;
    }
}

#[tokio::test]
async fn an_expired_or_future_certificate_is_misconfigured_and_the_error_says_which() {
    let authority = Authority::new();
    for (valid, words) in [
        (Valid::Before, ["expired", "days ago", "install a new one"]),
        (Valid::Later, ["not valid yet", "days", "clock"]),
    ] {
        let secure = Secure::open(&authority.sign(&["localhost"], valid));
        let builder = secure.client("localhost").tls_ca_file(authority.file());
        refusal(builder, ErrorKind::Misconfigured, &words).await;
    }
}

/// Some servers without TLS wait for the end of a line and send nothing. Others reply to the handshake.
#[tokio::test]
async fn a_server_without_tls_is_distinguished_from_one_that_is_down() {
    let plain = Redis::start();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other_protocol = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ports = [
        silent.local_addr().unwrap().port(),
        other_protocol.local_addr().unwrap().port(),
    ];
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = other_protocol.accept().await {
            let _ = stream.write_all(b"-ERR unknown command\r\n").await;
            open.push(stream);
        }
    });
    for (port, words) in [
        (plain.port, "TLS"),
        (ports[0], "no answer to TLS within 500ms"),
        (ports[1], "the server's answer is not TLS"),
    ] {
        let builder = Client::builder().url(format!("rediss://127.0.0.1:{port}"));
        let builder = builder.connect_timeout(Duration::from_millis(500));
        let advice = "if the server has none, the URL begins with redis, not with rediss";
        refusal(builder, ErrorKind::Unavailable, &["127.0.0.1", words, advice]).await;
    }
}

/// The advice is the same for all of these servers, so the message has it once.
#[tokio::test]
async fn several_servers_without_tls_get_one_advice() {
    let mut places = Vec::new();
    for _ in 0..3 {
        places.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let url = |place: &TcpListener| format!("rediss://{}", place.local_addr().unwrap());
    let hosts: Vec<String> = places
        .iter()
        .map(|place| place.local_addr().unwrap().to_string())
        .collect();
    let sentinels = format!("rediss+sentinel://{}/stock", hosts.join(","));
    for builder in [
        Client::builder().primaries(places.iter().map(url)),
        Client::builder().url(sentinels),
    ] {
        let builder = builder.connect_timeout(Duration::from_millis(500));
        let error = refusal(builder, ErrorKind::Unavailable, &["no answer to TLS"]).await;
        assert_eq!(
            error.to_string().matches("the URL begins with redis").count(),
            1,
            "{error}"
        );
        assert!(!error.cause().unwrap().contains("the URL"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_has_answered_is_not_probed_for_tls() {
    let server = Redis::start();
    let port = server.port;
    let builder = Client::builder().url(format!("redis://127.0.0.1:{port}"));
    let client = builder
        .command_timeout(Duration::from_millis(500))
        .connect()
        .await
        .unwrap();
    drop(server);
    let silent = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    tokio::spawn(async move { while silent.accept().await.is_ok() {} });
    let waiting = client.lock("a").wait(Duration::from_millis(500)).acquire().await;
    let error = waiting.map(drop).expect_err("no server grants the lock");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.to_string().contains("TLS"), "{error}");
}

#[tokio::test]
async fn a_server_with_tls_only_is_distinguished_from_one_that_is_down() {
    let secure = Secure::open(&Authority::new().here());
    let builder = Client::builder().url(format!("redis://localhost:{}", secure.port));
    let words = ["if the server wants TLS, the URL begins with rediss"];
    refusal(builder, ErrorKind::Unavailable, &words).await;
}

/// `openssl req -x509` makes such a certificate, a frequent mistake.
#[tokio::test]
async fn an_authority_as_server_certificate_is_misconfigured_and_the_error_says_what_to_create() {
    let authority = Authority::new();
    let secure = Secure::open(&authority.own());
    let builder = secure.client("localhost").tls_ca_file(authority.file());
    let words = ["that of an authority", "let that authority sign one", "CA:FALSE"];
    refusal(builder, ErrorKind::Misconfigured, &words).await;
}

#[tokio::test]
async fn a_client_with_a_certificate_is_accepted_and_woken() {
    let authority = Authority::new();
    let secure = Secure::requiring_client_certificate(&authority.here(), &authority, &[]);
    let pair = authority.sign(&["worker"], Valid::Now);
    let connect = || with(trusting(&secure, &authority), &pair).connect();
    let (holder, waiter) = (connect().await.unwrap(), connect().await.unwrap());
    let held = holder.lock("a").acquire().await.unwrap();
    let waiting = {
        let lock = waiter.lock("a").wait(Duration::from_secs(5));
        tokio::spawn(async move { lock.acquire().await.map(drop) })
    };
    eventually("the waiter listens", Duration::from_secs(5), || {
        secure.server.calls("subscribe") >= 1
    })
    .await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_demands_a_certificate_says_so_in_every_version_of_tls() {
    let authority = Authority::new();
    for version in ["TLSv1.2", "TLSv1.3"] {
        let secure = Secure::requiring_client_certificate(&authority.here(), &authority, &["--tls-protocols", version]);
        for _ in 0..10 {
            let words = ["demands a client certificate", "tls_cert_file", "tls_key_file"];
            refusal(trusting(&secure, &authority), ErrorKind::Misconfigured, &words).await;
        }
    }
}

#[tokio::test]
async fn a_client_certificate_that_is_not_accepted_is_misconfigured_and_named() {
    let (authority, other) = (Authority::new(), Authority::new());
    for version in ["TLSv1.2", "TLSv1.3"] {
        let secure = Secure::requiring_client_certificate(&authority.here(), &authority, &["--tls-protocols", version]);
        for (pair, why) in [
            (other.sign(&["worker"], Valid::Now), "authority is unknown"),
            (authority.sign(&["worker"], Valid::Before), "expired"),
        ] {
            let words = ["did not accept", "tls_cert_file", text(&pair.cert), why];
            let builder = with(trusting(&secure, &authority), &pair);
            refusal(builder, ErrorKind::Misconfigured, &words).await;
        }
    }
}

#[tokio::test]
async fn invalid_files_are_named_and_their_content_is_never_printed() {
    let authority = Authority::new();
    let (pair, other) = (authority.here(), authority.here());
    let garbage = authority.write("garbage.pem", "-----BEGIN sesame\nsesame\n");
    let broken = authority.write(
        "broken.pem",
        "-----BEGIN CERTIFICATE-----\nsesame!\n-----END CERTIFICATE-----\n",
    );
    let empty = authority.write("empty.pem", "sesame");
    let nowhere = authority.file().with_file_name("nowhere.pem");
    let folder = authority.file().parent().unwrap().to_owned();
    let builder = || Client::builder().url("rediss://localhost:1");
    for file in [&garbage, &broken, &empty, &nowhere, &folder] {
        let path = text(file);
        let ca = builder().tls_ca_file(file);
        refusal(ca, ErrorKind::Misconfigured, &["tls_ca_file", path]).await;
        let cert = builder().tls_cert_file(file).tls_key_file(&pair.key);
        refusal(cert, ErrorKind::Misconfigured, &["tls_cert_file", path]).await;
        let key = builder().tls_cert_file(&pair.cert).tls_key_file(file);
        refusal(key, ErrorKind::Misconfigured, &["tls_key_file", path]).await;
    }
    let words = ["tls_key_file", text(&other.key), "not the key", text(&pair.cert)];
    let mixed = builder().tls_cert_file(&pair.cert).tls_key_file(&other.key);
    refusal(mixed, ErrorKind::Misconfigured, &words).await;
    // The two files are swapped. Both hold PEM, but of the other kind.
    let swapped = builder().tls_cert_file(&pair.key).tls_key_file(&pair.cert);
    refusal(swapped, ErrorKind::Misconfigured, &["tls_cert_file", "no certificate"]).await;
    let twice = builder().tls_cert_file(&pair.cert).tls_key_file(&pair.cert);
    refusal(twice, ErrorKind::Misconfigured, &["tls_key_file", "no private key"]).await;
}

#[tokio::test]
async fn a_key_in_place_of_a_path_is_refused_and_never_printed() {
    let authority = Authority::new();
    let pair = authority.here();
    let key = std::fs::read_to_string(&pair.key).unwrap();
    let secret = key.lines().nth(1).unwrap();
    let joined: String = key.lines().filter(|line| !line.starts_with('-')).collect();
    for key_text in [key.as_str(), &key.replace('\n', "\\n"), &joined, secret] {
        for builder in [
            Client::builder().tls_cert_file(&pair.cert).tls_key_file(key_text),
            Client::builder().tls_cert_file(key_text).tls_key_file(&pair.key),
            Client::builder().tls_ca_file(key_text),
        ] {
            let builder = builder.url("rediss://localhost:1");
            assert!(!format!("{builder:?}").contains(secret));
            let error = refusal(builder, ErrorKind::InvalidArgument, &["path of a PEM file"]).await;
            assert!(!format!("{error} {error:?}").contains(secret));
        }
    }
}

#[tokio::test]
async fn a_certificate_without_its_key_or_without_tls_is_an_invalid_argument() {
    let authority = Authority::new();
    let pair = authority.here();
    let tls = || Client::builder().url("rediss://localhost:1");
    let words = ["tls_cert_file", "tls_key_file"];
    refusal(tls().tls_cert_file(&pair.cert), ErrorKind::InvalidArgument, &words).await;
    refusal(tls().tls_key_file(&pair.key), ErrorKind::InvalidArgument, &words).await;
    for url in ["redis://localhost:1", "memory://", "redis+unix:///nowhere"] {
        let builder = with(Client::builder().url(url), &pair);
        refusal(builder, ErrorKind::InvalidArgument, &["tls_cert_file", "rediss://"]).await;
    }
}

#[tokio::test]
async fn a_server_whose_certificate_expires_costs_no_lease_before_its_deadline() {
    let authority = Authority::new();
    let (good, expired) = (authority.here(), authority.sign(&["localhost"], Valid::Before));
    let secure = Secure::open(&good);
    let install = |pair: &Pair| {
        secure.server.run(&[
            "CONFIG",
            "SET",
            "tls-cert-file",
            text(&pair.cert),
            "tls-key-file",
            text(&pair.key),
        ]);
    };
    let client = trusting(&secure, &authority)
        .lease(Duration::from_secs(6))
        .command_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    let (remaining, acquired) = (lease.remaining(), std::time::Instant::now());
    install(&expired);
    for kind in ["normal", "pubsub"] {
        let _ = redis::cmd("CLIENT")
            .arg(&["KILL", "TYPE", kind, "SKIPME", "yes"])
            .query::<i64>(&mut secure.server.connection());
    }
    // Once the client has tried to connect again, its errors name the cause. The kind stays `Unavailable`, as the cause
    // can disappear.
    let start = std::time::Instant::now();
    loop {
        let error = client.lock("b").try_acquire().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        if error.message().contains("expired") {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(2), "{error}");
    }
    while acquired.elapsed() + Duration::from_secs(2) < remaining {
        assert!(lease.is_valid() && lease.lost_reason().is_none());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    install(&good);
    eventually("the lease is renewed", Duration::from_secs(5), || {
        lease.remaining() > Duration::from_secs(3)
    })
    .await;
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn a_running_client_reads_replaced_files_again() {
    let (before, after) = (Authority::new(), Authority::new());
    let secure = Secure::requiring_client_certificate(&before.here(), &before, &[]);
    let pair = before.sign(&["worker"], Valid::Now);
    let client = with(trusting(&secure, &before), &pair).connect().await.unwrap();
    let lease = client.lock("a").acquire().await.unwrap();

    let (server, worker) = (after.here(), after.sign(&["worker"], Valid::Now));
    for (from, to) in [
        (&worker.cert, &pair.cert),
        (&worker.key, &pair.key),
        (&after.file(), &before.file()),
    ] {
        std::fs::copy(from, to).unwrap();
    }
    secure.server.run(&[
        "CONFIG",
        "SET",
        "tls-cert-file",
        text(&server.cert),
        "tls-key-file",
        text(&server.key),
        "tls-ca-cert-file",
        text(&after.file()),
    ]);
    let _ = redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
        .query::<i64>(&mut secure.server.connection());
    let again = client.lock("b").wait(Duration::from_secs(20)).acquire().await.unwrap();
    assert!(lease.is_valid());
    assert_eq!(again.release().await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
}
