//! Tests of replies that differ between server versions, and that Steadlock must read alike. `STEADLOCK_TEST_SERVER`
//! names the version.

mod support;

use std::time::Duration;

use redis::{ProtocolVersion, Value};
use steadlock::{Client, ErrorKind, Lease, ReleaseOutcome};
use support::version::{self, Version};
use support::{Redis, eventually, refusal};

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn the_greeting_and_info_say_what_the_server_is() {
    let server = Redis::start();
    let version = version::of(&server);
    let expected = match Version::chosen() {
        Version::Redis62 => "Redis 6.2.",
        Version::System => "",
        Version::Redis82 => "Redis 8.2.",
        Version::Valkey91 => "Valkey 9.1.",
    };
    assert!(version.starts_with(expected), "{version}");

    let mut info = redis::IntoConnectionInfo::into_connection_info(server.url()).unwrap();
    info = info
        .clone()
        .set_redis_settings(info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3));
    let mut connection = redis::Client::open(info).unwrap().get_connection().unwrap();
    let Value::Map(hello) = redis::cmd("HELLO").query(&mut connection).unwrap() else {
        panic!("no map");
    };
    let field = |name: &str| {
        let found = hello
            .iter()
            .find(|(key, _)| redis::from_redis_value_ref::<String>(key).unwrap() == name);
        redis::from_redis_value_ref::<String>(&found.unwrap().1).unwrap()
    };
    assert_eq!(
        format!("{} {}", field("server"), field("version")),
        version.to_lowercase(),
        "Valkey gives its own version, not that of the Redis it is compatible with"
    );
    assert_eq!((&*field("mode"), &*field("role")), ("standalone", "master"));
    // Bypasses `println`, whose output appears only for failed tests.
    std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("versions, rust, on {version}\n").as_bytes(),
    )
    .unwrap();
}

#[tokio::test]
async fn a_full_server_still_renews_and_releases() {
    let server = Redis::start();
    let client = Client::connect(server.url()).await.unwrap();
    let held = every_kind(&client, "full").await;
    set_memory(&server, "1");
    for lease in &held {
        lease.extend(Some(Duration::from_secs(40))).await.unwrap();
    }
    for lease in held {
        let name = lease.name().to_owned();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released, "{name}");
    }
}

#[tokio::test]
async fn a_full_server_is_unavailable_until_it_has_memory_again() {
    let server = Redis::start();
    let client = Client::connect(server.url()).await.unwrap();
    set_memory(&server, "1");
    let error = refusal(client.lock("a").wait(Duration::from_millis(200)).acquire().await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("OOM"), "{error}");

    let refused_before = server.calls("evalsha");
    let lock = client.lock("a").wait(SOON);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    eventually("the call was refused again", SOON, || {
        server.calls("evalsha") > refused_before
    })
    .await;
    set_memory(&server, "0");
    let _lease = waiter.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_primary_that_became_a_replica_is_unavailable() {
    let server = Redis::start();
    let client = Client::connect(server.url()).await.unwrap();
    server.run(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = refusal(client.lock("a").wait(Duration::from_millis(200)).acquire().await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("READONLY"), "{error}");
    server.run(&["REPLICAOF", "NO", "ONE"]);
    let lease = client.lock("a").wait(SOON).acquire().await.unwrap();
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_key_of_another_type_is_named_and_advice_given() {
    let server = Redis::start();
    let client = Client::connect(server.url()).await.unwrap();
    server.run(&["RPUSH", "list", "data"]);
    for lock in [client.lock("list"), client.mutex("list"), client.fair_lock("list")] {
        let error = refusal(lock.try_acquire().await);
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert_eq!(error.lock_name(), Some("list"));
        assert!(error.message().contains("something that is not a lock"), "{error}");
    }
}

async fn every_kind(client: &Client, name: &str) -> Vec<Lease> {
    let locks = [
        client.lock(name),
        client.mutex(format!("{name}-mutex")),
        client.fair_lock(format!("{name}-fair")),
        client.read_write_lock(format!("{name}-read")).read,
        client.read_write_lock(name).write,
        client.semaphore(name, 2).permits(2),
    ];
    let mut held = Vec::new();
    for lock in locks {
        held.push(lock.acquire().await.unwrap());
    }
    held
}

fn set_memory(server: &Redis, bytes: &str) {
    server.run(&["CONFIG", "SET", "maxmemory", bytes]);
}
