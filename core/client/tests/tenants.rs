//! Tests of several tenants on one redis-server. An access list confines each tenant to the names that start with its
//! prefix.

mod support;

use std::time::{Duration, Instant};

use steadlock::{Client, Error, ErrorKind, Lease};
use steadlock_protocol::Reply;
use support::{Redis, eventually, on_time};

const SOON: Duration = Duration::from_secs(20);
/// A poll interval so long that an earlier grant must come from a notification.
const POLL: Duration = Duration::from_secs(60);
const NAMES: [&str; 3] = ["x", "order:{7}:item", "{all}"];

/// Starts a server with a user that may use only names that start with `acme:`.
fn server_of_acme() -> Redis {
    let server = Redis::start();
    let keys = ["~acme:*", "~steadlock:{acme:*", "~steadlock::acme:*"];
    let channels = [
        "&steadlock:{acme:*",
        "&steadlock::acme:*",
        "&redisson_lock__channel:{acme:*",
        "&redisson_lock__channel:acme:*",
    ];
    let user = ["ACL", "SETUSER", "acme", "on", ">pw", "+@all", "resetchannels"];
    server.run(&[&user[..], &keys, &channels].concat());
    server
}

async fn connect(server: &Redis, prefix: &str) -> Client {
    Client::builder()
        .url(format!("redis://acme:pw@127.0.0.1:{}", server.port))
        .key_prefix(prefix)
        .retry_interval(POLL, POLL)
        .connect()
        .await
        .unwrap()
}

/// Returns the refusals in the server's log, those inside scripts among them.
fn refused(server: &Redis) -> Vec<Reply> {
    match server.run(&["ACL", "LOG"]) {
        Reply::Array(entries) => entries,
        other => panic!("{other:?}"),
    }
}

/// Acquires a lock of a kind, with this wait.
async fn acquire(client: Client, kind: &str, name: &str, wait: Duration) -> Result<Lease, Error> {
    match kind {
        "lock" => client.lock(name).wait(wait).acquire().await,
        "mutex" => client.mutex(name).wait(wait).acquire().await,
        "fair" => client.fair_lock(name).wait(wait).acquire().await,
        "read" => client.read_write_lock(name).read.clone().wait(wait).acquire().await,
        "write" => client.read_write_lock(name).write.clone().wait(wait).acquire().await,
        _ => client.semaphore(name, 1).wait(wait).acquire(1).await,
    }
}

#[tokio::test]
async fn a_tenant_has_every_kind_of_lock_and_gets_release_messages_within_its_patterns() {
    let server = server_of_acme();
    let (one, two) = (connect(&server, "acme:").await, connect(&server, "acme:").await);
    for name in NAMES {
        for (held, wanted) in [
            ("lock", "lock"),
            ("lock", "fair"),
            ("fair", "fair"),
            ("mutex", "mutex"),
            ("write", "read"),
            ("read", "write"),
            ("semaphore", "semaphore"),
        ] {
            let name = format!("{held}-{wanted}-{name}");
            let lease = acquire(one.clone(), held, &name, SOON).await.unwrap();
            let waiter = tokio::spawn({
                let (two, name) = (two.clone(), name.clone());
                async move { acquire(two, wanted, &name, SOON).await }
            });
            let pattern = format!("*acme:{name}*");
            eventually("the waiter has subscribed", SOON, || {
                server.run(&["PUBSUB", "CHANNELS", &pattern]) != Reply::Array(Vec::new())
            })
            .await;
            let start = Instant::now();
            lease.release().await.unwrap();
            let next = waiter.await.unwrap().unwrap();
            assert!(start.elapsed() < on_time(Duration::from_secs(2)), "{name}: not woken");
            next.extend(None).await.unwrap();
            next.release().await.unwrap();
        }
    }
    assert_eq!(refused(&server), []);
    let prefixes = ["acme:", "steadlock:{acme:", "steadlock::acme:"];
    let Reply::Array(keys) = server.run(&["KEYS", "*"]) else {
        panic!("KEYS gave no list");
    };
    for key in keys {
        let Reply::Bytes(key) = key else { panic!("{key:?}") };
        assert!(
            prefixes.iter().any(|prefix| key.starts_with(prefix.as_bytes())),
            "{key:?}"
        );
    }
}

#[tokio::test]
async fn a_tenant_is_refused_the_names_of_another_in_any_form() {
    let server = server_of_acme();
    for prefix in ["other:", "acme2:", "{acme:x}", ":acme:"] {
        let client = connect(&server, prefix).await;
        for name in NAMES {
            for kind in ["lock", "mutex", "fair", "read", "write", "semaphore"] {
                let error = acquire(client.clone(), kind, name, Duration::ZERO).await.unwrap_err();
                assert_eq!(
                    error.kind(),
                    ErrorKind::Misconfigured,
                    "{prefix}{name}, {kind}: {error}"
                );
            }
        }
    }
    assert_eq!(server.run(&["DBSIZE"]), Reply::Int(0));
}
