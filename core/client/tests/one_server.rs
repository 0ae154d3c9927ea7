//! A host name has the addresses of several servers, in a changing order. All connections of a client must use the same
//! server.

mod support;

use std::time::{Duration, Instant};

use steadlock::{Builder, Client, Error, ErrorKind, Lease, ReleaseOutcome};
use steadlock_protocol::Reply;
use support::fake_sentinel::FakeSentinel;
use support::hosts::Hosts;
use support::proxy::{ConnectionUse, Proxy};
use support::two_servers::{FIRST, LEASE, NAME, SECOND, TwoServers, UNUSED};
use support::{Redis, check_lock, eventually, free_port};

const SOON: Duration = Duration::from_secs(20);

/// Returns the ids of the connections for messages.
fn subscribers(server: &Redis) -> Vec<String> {
    let Reply::Bytes(list) = server.run(&["CLIENT", "LIST", "TYPE", "pubsub"]) else {
        panic!("no list")
    };
    let list = String::from_utf8(list).expect("text");
    let ids = list.lines().filter_map(|line| line.split(' ').next());
    ids.map(str::to_owned).collect()
}

async fn refused(builder: Builder) -> Error {
    let error = builder.connect().await.map(drop).expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    error
}

/// Checks that a lease stays valid until this server has renewed its record twice.
async fn check_lease_stays(lease: &Lease, server: &Redis, name: &str) {
    let ttl = || match server.run(&["PTTL", name]) {
        Reply::Int(ttl) if ttl > 0 => ttl,
        other => panic!("no record here, it was renewed elsewhere: {other:?}"),
    };
    let (start, mut before, mut renewals) = (Instant::now(), ttl(), 0);
    while renewals < 2 {
        tokio::time::sleep(LEASE / 40).await;
        assert!(lease.is_valid(), "{:?}", lease.lost_reason());
        let now = ttl();
        // Only a renewal raises the time to live.
        renewals += u32::from(now > before);
        before = now;
        assert!(start.elapsed() < SOON, "not renewed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_skipped_for_the_primary_in_any_order() {
    let Some(hosts) = Hosts::of("a_replica_is_skipped_for_the_primary_in_any_order") else {
        return;
    };
    let two = TwoServers::start();
    two.make_first_a_replica();
    for addresses in [[FIRST, SECOND], [SECOND, FIRST]].repeat(3) {
        hosts.lead(&[(NAME, &addresses)]);
        let client = two.builder().connect().await.unwrap();
        check_lock(&client, "a").await;
        two.wait_until_unused(0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_primaries_of_one_name_are_refused() {
    let Some(hosts) = Hosts::of("two_primaries_of_one_name_are_refused") else {
        return;
    };
    let two = TwoServers::start();
    two.hide_run_id();
    hosts.lead(&[(NAME, &[FIRST, SECOND])]);
    for _ in 0..5 {
        let error = refused(two.builder()).await;
        assert!(error.message().contains("several servers"), "{error}");
        let error = refused(two.builder_of_user()).await;
        assert!(error.message().contains("several servers"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_addresses_that_cannot_be_distinguished_are_refused() {
    let Some(hosts) = Hosts::of("two_addresses_that_cannot_be_distinguished_are_refused") else {
        return;
    };
    let two = TwoServers::start();
    hosts.lead(&[(NAME, &[FIRST, SECOND])]);
    for leads_to in [two.servers[1].port, two.servers[0].port] {
        // Two servers, and then two addresses of one server, look the same to this user.
        two.proxies[1].lead_to(leads_to);
        for rights in [["info", "set"], ["info", "get"]] {
            two.grant_all_except(&rights);
            let error = refused(two.builder_of_user()).await;
            assert!(error.message().contains("cannot be told"), "{error}");
            assert!(error.message().contains("+info"), "{error}");
        }
    }
    hosts.lead(&[(NAME, &[FIRST])]);
    two.builder_of_user()
        .connect()
        .await
        .expect("one address is one server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_does_not_switch_to_an_address_whose_server_it_cannot_identify() {
    let Some(hosts) = Hosts::of("a_client_does_not_switch_to_an_address_whose_server_it_cannot_identify") else {
        return;
    };
    let two = TwoServers::start();
    two.hide_run_id();
    hosts.lead(&[(NAME, &[FIRST])]);
    let client = two.builder_of_user().connect().await.unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    eventually("the lease is renewed", SOON, || {
        two.proxies[0].count(ConnectionUse::Renewals) > 0
    })
    .await;
    two.grant_all_except(&["info", "set"]);
    hosts.lead(&[(NAME, &[SECOND])]);
    two.proxies[0].refuse();
    two.proxies[0].cut(ConnectionUse::Commands);
    let error = client.lock("b").acquire().await.map(drop).expect_err("no connection");
    assert!(error.to_string().contains("cannot be told"), "{error}");
    check_lease_stays(&lease, &two.servers[0], "a").await;
    two.hide_run_id();
    two.proxies[0].lead_to(two.servers[0].port);
    check_lock(&client, "b").await;
    two.wait_until_unused(1).await;
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_addresses_of_one_server_are_one_server() {
    let Some(hosts) = Hosts::of("several_addresses_of_one_server_are_one_server") else {
        return;
    };
    let two = TwoServers::start();
    two.hide_run_id();
    two.proxies[1].lead_to(two.servers[0].port);
    hosts.lead(&[(NAME, &[FIRST, SECOND, UNUSED])]);
    for builder in [two.builder(), two.builder_of_user()] {
        let client = builder.connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        two.proxies.iter().for_each(|proxy| proxy.cut(ConnectionUse::Renewals));
        check_lease_stays(&lease, &two.servers[0], "a").await;
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_stays_at_its_server_when_the_name_leads_elsewhere() {
    let Some(hosts) = Hosts::of("a_client_stays_at_its_server_when_the_name_leads_elsewhere") else {
        return;
    };
    let two = TwoServers::start();
    two.hide_run_id();
    for builder in [two.builder(), two.builder_of_user()] {
        hosts.lead(&[(NAME, &[FIRST])]);
        let client = builder.connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        hosts.lead(&[(NAME, &[SECOND])]);
        for usage in [
            ConnectionUse::Renewals,
            ConnectionUse::Commands,
            ConnectionUse::Renewals,
        ] {
            eventually("the client has the connection", SOON, || {
                two.proxies[0].count(usage) > 0
            })
            .await;
            two.proxies[0].cut(usage);
            check_lease_stays(&lease, &two.servers[0], "a").await;
            check_lock(&client, "b").await;
        }
        two.wait_until_unused(1).await;
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_from_the_client_s_server_when_the_name_leads_elsewhere() {
    let Some(hosts) = Hosts::of("messages_come_from_the_client_s_server_when_the_name_leads_elsewhere") else {
        return;
    };
    let two = TwoServers::start();
    two.hide_run_id();
    let other = Client::connect(two.servers[0].url()).await.unwrap();
    for builder in [two.builder(), two.builder_of_user()] {
        hosts.lead(&[(NAME, &[FIRST])]);
        let client = builder.connect().await.unwrap();
        let held = other.lock("a").acquire().await.unwrap();
        let lock = client.lock("a").wait(3 * SOON);
        let waiter = tokio::spawn(async move { lock.acquire().await });
        eventually("the client has subscribed", SOON, || {
            two.proxies[0].count(ConnectionUse::Subscriptions) > 0 && !subscribers(&two.servers[0]).is_empty()
        })
        .await;
        let before = subscribers(&two.servers[0]);
        hosts.lead(&[(NAME, &[SECOND])]);
        two.proxies[0].cut(ConnectionUse::Subscriptions);
        eventually("the client has subscribed there again", SOON, || {
            let now = subscribers(&two.servers[0]);
            !now.is_empty() && now.iter().all(|id| !before.contains(id))
        })
        .await;
        two.wait_until_unused(1).await;
        assert_eq!(subscribers(&two.servers[1]), Vec::<String>::new());
        assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);
        let lease = waiter.await.unwrap().unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
        client.close().await;
        eventually("no subscription is left", SOON, || {
            subscribers(&two.servers[0]).is_empty()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_follows_the_name_when_its_server_is_gone() {
    let Some(hosts) = Hosts::of("a_client_follows_the_name_when_its_server_is_gone") else {
        return;
    };
    let mut two = TwoServers::start();
    hosts.lead(&[(NAME, &[FIRST])]);
    let client = two.builder().connect().await.unwrap();
    check_lock(&client, "a").await;
    hosts.lead(&[(NAME, &[SECOND])]);
    two.servers[0].stop();
    two.proxies[0].refuse();
    check_lock(&client, "a").await;
    assert!(two.is_used(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_leaves_a_hanging_server_for_the_one_that_the_name_leads_to_now() {
    let Some(hosts) = Hosts::of("a_client_leaves_a_hanging_server_for_the_one_that_the_name_leads_to_now") else {
        return;
    };
    let two = TwoServers::start();
    hosts.lead(&[(NAME, &[FIRST])]);
    let client = two.builder().connect().await.unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    two.servers[0].pause();
    hosts.lead(&[(NAME, &[SECOND])]);
    eventually("the loss of the lock is reported", SOON, || !lease.is_valid()).await;
    check_lock(&client, "a").await;
    assert!(two.is_used(1));
    two.servers[0].resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_leads_elsewhere_is_followed_with_all_connections() {
    for user in ["", "locks:secret@"] {
        let two = TwoServers::start();
        two.hide_run_id();
        let proxy = Proxy::to(two.servers[0].port);
        let url = format!("redis://{user}127.0.0.1:{}", proxy.port);
        let client = Client::builder().url(url).lease(LEASE).connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        eventually("the lease is renewed", SOON, || {
            proxy.count(ConnectionUse::Renewals) > 0
        })
        .await;
        proxy.lead_to(two.servers[1].port);
        proxy.cut(ConnectionUse::Commands);
        eventually("the loss is reported", SOON, || !lease.is_valid()).await;
        check_lock(&client, "b").await;
        let left = || proxy.connections_to(two.servers[0].port) == 0;
        eventually("no connection leads there", SOON, left).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_alternates_between_two_servers_is_refused() {
    let two = TwoServers::start();
    two.hide_run_id();
    let balancer = Proxy::to(two.servers[0].port);
    balancer.alternate_with(two.servers[1].port);
    for user in ["", "locks:secret@"] {
        let url = format!("redis://{user}127.0.0.1:{}", balancer.port);
        let error = refused(Client::builder().url(url)).await;
        assert!(error.message().contains("several servers"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_and_the_primary_that_it_names_may_have_several_addresses() {
    let Some(hosts) = Hosts::of("a_sentinel_and_the_primary_that_it_names_may_have_several_addresses") else {
        return;
    };
    let two = TwoServers::start();
    two.make_first_a_replica();
    let sentinel = FakeSentinel::naming_at(NAME, two.port, 1, None);
    let proxy = Proxy::at(SECOND, free_port(), sentinel.port);
    for addresses in [[FIRST, SECOND], [SECOND, FIRST]] {
        hosts.lead(&[(NAME, &addresses), ("sentinels.test", &[UNUSED, SECOND])]);
        let url = format!("redis+sentinel://sentinels.test:{}/mymaster", proxy.port);
        let client = Client::builder().url(url).lease(LEASE).connect().await.unwrap();
        check_lock(&client, "a").await;
        two.wait_until_unused(0).await;
        assert!(two.is_used(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_of_redlock_may_have_several_addresses() {
    let Some(hosts) = Hosts::of("a_primary_of_redlock_may_have_several_addresses") else {
        return;
    };
    let two = TwoServers::start();
    two.make_first_a_replica();
    let others = [Redis::start(), Redis::start()];
    for addresses in [[FIRST, SECOND], [SECOND, FIRST]] {
        hosts.lead(&[(NAME, &addresses)]);
        let urls = [two.url(), others[0].url(), others[1].url()];
        let client = Client::builder().primaries(urls).lease(LEASE).connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        for server in [&two.servers[1], &others[0], &others[1]] {
            eventually("the primary has the record", SOON, || {
                server.run(&["EXISTS", "a"]) == Reply::Int(1)
            })
            .await;
        }
        two.wait_until_unused(0).await;
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
}
