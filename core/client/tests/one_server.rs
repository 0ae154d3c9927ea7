//! A host name has the addresses of several servers, in a changing order. All connections of a client must use the same
//! server.

mod support;

use std::time::Duration;

use steadlock::{Builder, Client, Error, ErrorKind, Lease, ReleaseOutcome};
use steadlock_protocol::Reply;
use support::hosts::Hosts;
use support::proxy::{Carries, Proxy};
use support::{Redis, check_lock, eventually, free_port};

const SOON: Duration = Duration::from_secs(10);
const LEASE: Duration = Duration::from_secs(1);
const NAME: &str = "locks.test";
const FIRST: &str = "127.0.0.2";
const SECOND: &str = "127.0.0.3";
/// An address at which nothing listens.
const NOBODY: &str = "127.0.0.4";
/// The command that creates a user. [`hide_run_id`] takes the right to INFO from this user, so that it cannot read the
/// run id.
const HIDDEN: [&str; 8] = ["ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all"];

/// Two servers at different addresses, with the same port.
struct TwoServers {
    servers: [Redis; 2],
    ways: [Proxy; 2],
    port: u16,
}

impl TwoServers {
    fn start() -> Self {
        let servers = [Redis::start(), Redis::start()];
        let port = free_port();
        let ways = [
            Proxy::at(FIRST, port, servers[0].port),
            Proxy::at(SECOND, port, servers[1].port),
        ];
        Self { servers, ways, port }
    }

    fn builder(&self) -> Builder {
        Client::builder()
            .url(format!("redis://{NAME}:{}", self.port))
            .lease(LEASE)
    }

    /// Builds a client with the user that cannot read the run id.
    fn builder_of_user(&self) -> Builder {
        self.builder().url(format!("redis://locks:secret@{NAME}:{}", self.port))
    }

    /// Whether a connection leads to this server.
    fn is_used(&self, server: usize) -> bool {
        self.ways[server].leading_to(self.servers[server].port) > 0
    }

    /// Waits until no connection leads to this server. One that only checked the server may still be closing.
    async fn wait_until_unused(&self, server: usize) {
        eventually("nothing leads there", SOON, || !self.is_used(server)).await;
    }
}

fn hide_run_id(server: &Redis) {
    server.run(&[&HIDDEN[..], &["-info"]].concat());
}

async fn refused(builder: Builder) -> Error {
    let error = builder.connect().await.map(drop).expect_err("no way");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    error
}

async fn check_lease_stays(lease: &Lease, server: &Redis, name: &str) {
    let end = std::time::Instant::now() + 3 * LEASE;
    while std::time::Instant::now() < end {
        assert!(lease.is_valid(), "{:?}", lease.lost_reason());
        assert_eq!(server.run(&["EXISTS", name]), Reply::Int(1), "renewed elsewhere");
        tokio::time::sleep(LEASE / 10).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_passed_over_for_the_primary_wherever_it_stands() {
    let Some(hosts) = Hosts::of("a_replica_is_passed_over_for_the_primary_wherever_it_stands") else {
        return;
    };
    let two = TwoServers::start();
    two.servers[0].run(&["REPLICAOF", "127.0.0.1", &two.servers[1].port.to_string()]);
    for addresses in [[FIRST, SECOND], [SECOND, FIRST]].repeat(3) {
        hosts.lead(&[(NAME, &addresses)]);
        let client = two.builder().connect().await.unwrap();
        check_lock(&client, "a").await;
        two.wait_until_unused(0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_primaries_of_one_name_are_refused_since_none_is_the_one_that_is_meant() {
    let Some(hosts) = Hosts::of("two_primaries_of_one_name_are_refused_since_none_is_the_one_that_is_meant") else {
        return;
    };
    let two = TwoServers::start();
    two.servers.iter().for_each(hide_run_id);
    hosts.lead(&[(NAME, &[FIRST, SECOND])]);
    for _ in 0..5 {
        let error = refused(two.builder()).await;
        assert!(error.message().contains("several servers"), "{error}");
        let error = refused(two.builder_of_user()).await;
        assert!(error.message().contains("several servers"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_addresses_of_one_server_are_one_server() {
    let Some(hosts) = Hosts::of("several_addresses_of_one_server_are_one_server") else {
        return;
    };
    let two = TwoServers::start();
    hide_run_id(&two.servers[0]);
    two.ways[1].lead_to(two.servers[0].port);
    hosts.lead(&[(NAME, &[FIRST, SECOND, NOBODY])]);
    for builder in [two.builder(), two.builder_of_user()] {
        let client = builder.connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        two.ways.iter().for_each(|way| way.cut(Carries::Renewals));
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
    two.servers.iter().for_each(hide_run_id);
    for builder in [two.builder(), two.builder_of_user()] {
        hosts.lead(&[(NAME, &[FIRST])]);
        let client = builder.connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        hosts.lead(&[(NAME, &[SECOND])]);
        for carries in [Carries::Renewals, Carries::Commands, Carries::Renewals] {
            eventually("it has that connection", SOON, || two.ways[0].count(carries) > 0).await;
            two.ways[0].cut(carries);
            check_lease_stays(&lease, &two.servers[0], "a").await;
            check_lock(&client, "b").await;
        }
        two.wait_until_unused(1).await;
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
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
    two.ways[0].refuse();
    check_lock(&client, "a").await;
    assert!(two.is_used(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_is_left_for_the_one_where_the_name_leads_now() {
    let Some(hosts) = Hosts::of("a_server_that_hangs_is_left_for_the_one_where_the_name_leads_now") else {
        return;
    };
    let two = TwoServers::start();
    hosts.lead(&[(NAME, &[FIRST])]);
    let client = two.builder().connect().await.unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    two.servers[0].pause();
    hosts.lead(&[(NAME, &[SECOND])]);
    eventually("its lock is lost, and that is told", SOON, || !lease.is_valid()).await;
    check_lock(&client, "a").await;
    assert!(two.is_used(1));
    two.servers[0].resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_leads_elsewhere_is_followed_with_all_connections() {
    for user in ["", "locks:secret@"] {
        let two = TwoServers::start();
        two.servers.iter().for_each(hide_run_id);
        let way = Proxy::to(two.servers[0].port);
        let url = format!("redis://{user}127.0.0.1:{}", way.port);
        let client = Client::builder().url(url).lease(LEASE).connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        eventually("it is renewed", SOON, || way.count(Carries::Renewals) > 0).await;
        way.lead_to(two.servers[1].port);
        way.cut(Carries::Commands);
        eventually("it is told", SOON, || !lease.is_valid()).await;
        check_lock(&client, "b").await;
        let left = || way.leading_to(two.servers[0].port) == 0;
        eventually("nothing leads there", SOON, left).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_that_leads_to_two_servers_by_turns_is_refused() {
    let two = TwoServers::start();
    two.servers.iter().for_each(hide_run_id);
    let balancer = Proxy::to(two.servers[0].port);
    balancer.lead_by_turns_to(two.servers[1].port);
    for user in ["", "locks:secret@"] {
        let url = format!("redis://{user}127.0.0.1:{}", balancer.port);
        let error = refused(Client::builder().url(url)).await;
        assert!(error.message().contains("several servers"), "{error}");
    }
}
