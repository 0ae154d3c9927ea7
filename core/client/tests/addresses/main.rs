//! Tests of servers that announce addresses which are not reachable from here, and of IPv6.

#![allow(unreachable_pub, reason = "what the modules of this binary share")]

#[path = "../support/certificates.rs"]
mod certificates;
mod clusters;
mod ipv6;
mod names;
mod pods;
mod sentinels;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use steadlock::{Client, ErrorKind};
use support::check_lock;

const SOON: Duration = Duration::from_secs(10);
/// An address that is not reachable.
const ELSEWHERE: &str = "10.255.0.1";

/// Acquires and releases locks until `is_there` returns true.
async fn check_lock_until(client: &Client, name: &str, what: &str, is_there: impl Fn() -> bool) {
    for number in 0..1_000 {
        let lock = client.lock(format!("{name}-{number}.")).wait(SOON);
        // The release can fail: the old primary may have granted the lock, and the release goes to the new one.
        let _ = lock.acquire().await.unwrap().release().await;
        if is_there() {
            return check_lock(client, name).await;
        }
        tokio::time::sleep(SOON / 1_000).await;
    }
    panic!("{what}");
}

#[tokio::test]
async fn an_invalid_map_is_refused_before_anything_is_opened() {
    let url = |scheme: &str| {
        format!(
            "{scheme}://127.0.0.1:1/{}",
            if scheme.ends_with("l") { "mymaster" } else { "" }
        )
    };
    let good = [("10.0.0.1:6379", "localhost:7001")];
    for (scheme, map, words) in [
        ("redis+cluster", [("10.0.0.1", "localhost:7001")], "one side only"),
        ("redis+sentinel", [("", "localhost:7001")], "no address"),
        ("redis+cluster", [("10.0.0.1:6379", "redis://h:1")], "no address"),
        ("redis", good, "redis+cluster://"),
    ] {
        let builder = Client::builder().url(url(scheme)).address_map(map).lazy();
        let error = builder.connect().await.map(drop).expect_err(words);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let message = error.message();
        assert!(message.contains("address_map") && message.contains(words), "{error}");
    }
    let builder = Client::builder().url("memory://").tls_server_name("cache.example");
    let error = builder.connect().await.map(drop).expect_err("no TLS");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.message().contains("tls_server_name"), "{error}");
}
