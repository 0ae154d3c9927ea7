//! Tests of servers at `::1`, and of the addresses that they announce.

use std::net::Ipv6Addr;

use steadlock::Client;
use steadlock_protocol::Reply;

use super::support::sentinel::{SERVICE, Sentinel};
use super::support::version::Version;
use super::support::{Redis, unused_port};
use super::{SOON, check_lock};

/// The options to listen on both addresses: the tests' own connections use 127.0.0.1.
const BOTH: [&str; 3] = ["--bind", "127.0.0.1", "::1"];

/// Whether the server has clients by IPv6.
fn has_clients_by_ipv6(server: &Redis) -> bool {
    let Reply::Bytes(reply) = server.run(&["CLIENT", "LIST"]) else {
        panic!("no text");
    };
    String::from_utf8(reply).unwrap().contains("addr=[::1]:")
}

#[tokio::test]
async fn a_server_at_an_ipv6_address_can_be_used() {
    let server = Redis::start_with(&BOTH, None);
    let client = Client::connect(format!("redis://[::1]:{}", server.port)).await.unwrap();
    check_lock(&client, "a").await;
    assert!(has_clients_by_ipv6(&server));
    let error = Client::connect(format!("redis://[::1]:{}", unused_port()))
        .await
        .map(drop);
    let error = error.expect_err("nothing listens at this address");
    assert!(error.to_string().contains("[::1]:"), "{error}");
}

/// Starts a node that announces `::1`. Servers announce it without brackets.
fn node() -> Redis {
    Redis::start_node(
        Version::chosen(),
        &[&BOTH[..], &["--cluster-announce-ip", "::1"]].concat(),
    )
}

fn id(node: &Redis) -> String {
    match node.run(&["CLUSTER", "MYID"]) {
        Reply::Bytes(id) => String::from_utf8(id).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn slot(node: &Redis, key: &str) -> String {
    match node.run(&["CLUSTER", "KEYSLOT", key]) {
        Reply::Int(slot) => slot.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_cluster_at_ipv6_addresses_can_be_used_and_a_moved_slot_is_followed() {
    let (one, other) = (node(), node());
    one.own_slots(0..8_192);
    other.own_slots(8_192..16_384);
    one.run(&["CLUSTER", "MEET", "::1", &other.port.to_string()]);
    for node in [&one, &other] {
        node.wait_until_served();
    }
    let client = Client::connect(format!("redis+cluster://[::1]:{}", one.port))
        .await
        .unwrap();
    for number in 0..20 {
        check_lock(&client, &format!("anywhere-{number}")).await;
    }
    for node in [&one, &other] {
        assert!(has_clients_by_ipv6(node));
        assert!(node.calls("evalsha") + node.calls("eval") > 0);
    }
    // A name whose slot belongs to the first node. The lock leaves no key behind, so the slot can move without keys.
    let mut names = (0..).map(|number| format!("moved-{number}"));
    let is_there = |name: &String| slot(&one, name).parse::<u16>().unwrap() < 8_192;
    let name = names.find(is_there).unwrap();
    let lock = client.lock(&name).without_fencing().wait(SOON);
    lock.acquire().await.unwrap().release().await.unwrap();
    let (slot, next) = (slot(&one, &name), id(&other));
    for node in [&other, &one] {
        node.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &next]);
    }
    let before = other.calls("evalsha") + other.calls("eval");
    lock.acquire().await.unwrap().release().await.unwrap();
    assert!(other.calls("evalsha") + other.calls("eval") > before);
}

#[tokio::test]
async fn sentinels_at_ipv6_addresses_lead_to_a_primary_at_one() {
    let server = Redis::start_with(&BOTH, None);
    let monitor = format!("sentinel monitor {SERVICE} ::1 {} 1", server.port);
    let sentinel = Sentinel::start(Ipv6Addr::LOCALHOST.into(), &[monitor]);
    let url = format!("redis+sentinel://[::1]:{}/{SERVICE}", sentinel.port);
    check_lock(&Client::connect(url).await.unwrap(), "a").await;
    assert!(has_clients_by_ipv6(&server));
}
