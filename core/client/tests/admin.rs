//! Tests of `steadlock::admin`, with which tools send commands to the servers behind a URL.
#![cfg(feature = "admin")]

mod support;

use std::time::{Duration, Instant};

use steadlock::admin::{CallError, Reply, Servers, Topology};
use steadlock::{Client, Error, ErrorKind};
use support::hosts::Hosts;
use support::proxy::Proxy;
use support::rig::Rig;
use support::sentinel::SentinelRig;
use support::two_servers::{FIRST, NAME, SECOND, TwoServers, UNUSED};
use support::{Redis, unused_port};

async fn open(url: &str) -> Result<Servers, Error> {
    Servers::open(Client::builder().url(url)).await
}

fn text(reply: Reply) -> String {
    let Reply::Bytes(bytes) = reply else {
        panic!("{reply:?}")
    };
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn one_server_is_one_primary_that_answers_commands() {
    let redis = Redis::start();
    let mut servers = open(&redis.url()).await.unwrap();
    assert!(!servers.has_several_primaries());
    let [deployment] = servers.deployments_mut() else {
        panic!("one URL, one deployment")
    };
    assert_eq!(deployment.topology(), Topology::Standalone);
    assert_eq!(deployment.service(), None);
    let server = deployment.primary_of("a").unwrap();
    assert_eq!(server.address(), format!("127.0.0.1:{}", redis.port));
    assert_eq!(text(server.call(&["SET", "a", "1"]).await.unwrap()), "OK");
    let many: Vec<[&str; 2]> = vec![["GET", "a"]; 2_000];
    let answers = server.ask_all(&many).await.unwrap();
    assert_eq!(answers.len(), 2_000);
    assert!(answers.iter().all(|answer| *answer == Ok(Reply::Bytes(b"1".to_vec()))));
}

#[tokio::test]
async fn a_refused_command_has_its_error_code_and_the_others_of_its_batch_succeed() {
    let redis = Redis::start();
    let mut servers = open(&redis.url()).await.unwrap();
    let server = &mut servers.deployments_mut()[0].primaries_mut()[0];
    server.call(&["SET", "a", "1"]).await.unwrap();
    let answers = server.ask_all(&[vec!["HLEN", "a"], vec!["STRLEN", "a"]]).await.unwrap();
    assert!(
        matches!(&answers[0], Err(CallError::Server { code, .. }) if code == "WRONGTYPE"),
        "{answers:?}"
    );
    assert_eq!(answers[1], Ok(Reply::Int(1)));
    let error = server.call(&["NOSUCH"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.node().is_some(), "{error}");
}

#[tokio::test]
async fn an_error_about_a_missing_right_names_no_lock() {
    let redis = Redis::start();
    redis.run(&["ACL", "SETUSER", "sesame", "on", ">hunter2", "~*", "-@all", "+get"]);
    let url = format!("redis://sesame:hunter2@127.0.0.1:{}", redis.port);
    let mut servers = open(&url).await.unwrap();
    let server = &mut servers.deployments_mut()[0].primaries_mut()[0];
    assert_eq!(server.call(&["GET", "a"]).await.unwrap(), Reply::Nil);
    let refused = server.ask(&["INFO"]).await.unwrap();
    assert!(
        matches!(&refused, Err(CallError::Server { code, message }) if code == "NOPERM" && !message.contains("sesame")),
        "{refused:?}"
    );
    assert!(!format!("{servers:?}").contains("hunter2"), "{servers:?}");
}

#[tokio::test]
async fn a_server_that_stops_answering_is_unavailable_and_is_asked_again_later() {
    let redis = Redis::start();
    let builder = Client::builder()
        .url(redis.url())
        .command_timeout(Duration::from_millis(300));
    let mut servers = Servers::open(builder).await.unwrap();
    let server = &mut servers.deployments_mut()[0].primaries_mut()[0];
    server.call(&["SET", "a", "1"]).await.unwrap();
    redis.pause();
    let start = Instant::now();
    let error = server.call(&["GET", "a"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    redis.resume();
    // The late reply to the first command is not mistaken for the reply to this one.
    assert_eq!(server.call(&["STRLEN", "a"]).await.unwrap(), Reply::Int(1));
}

#[tokio::test]
async fn a_server_that_is_down_fails_its_first_command() {
    let url = format!("redis://127.0.0.1:{}", unused_port());
    let mut servers = open(&url).await.unwrap();
    let error = servers.deployments_mut()[0].primaries_mut()[0].call(&["PING"]).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    for url in [
        format!("redis+cluster://127.0.0.1:{}", unused_port()),
        SentinelRig::url_of(&[unused_port()], "mymaster"),
    ] {
        let error = open(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let error = open("memory://").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[tokio::test]
async fn each_primary_of_a_cluster_is_listed_with_its_keys() {
    let rig = Rig::start("cluster");
    let mut servers = open(&rig.url).await.unwrap();
    let deployment = &mut servers.deployments_mut()[0];
    assert_eq!(deployment.topology(), Topology::Cluster);
    assert_eq!(deployment.primaries().len(), 3);
    for key in ["a", "b", "c", "{a}:x", "d", "e", "f"] {
        let server = deployment.primary_of(key).unwrap();
        assert_eq!(text(server.call(&["SET", key, "1"]).await.unwrap()), "OK", "{key}");
    }
    for server in deployment.primaries_mut() {
        let role = server.call(&["ROLE"]).await.unwrap();
        let Reply::Array(role) = role else { panic!("{role:?}") };
        assert_eq!(role[0], Reply::Bytes(b"master".to_vec()));
    }
}

#[tokio::test]
async fn sentinels_name_the_primary_and_each_other() {
    let rig = SentinelRig::start();
    let one = SentinelRig::url_of(&[rig.sentinels()[0].port], "mymaster");
    let mut servers = open(&one).await.unwrap();
    let deployment = &mut servers.deployments_mut()[0];
    assert_eq!(deployment.topology(), Topology::Sentinel);
    assert_eq!(deployment.service(), Some("mymaster"));
    let primary = &mut deployment.primaries_mut()[0];
    assert!(primary.address().ends_with(&format!(":{}", rig.primary().port)));
    primary.call(&["SET", "a", "1"]).await.unwrap();
    assert_eq!(deployment.sentinels_mut().len(), 3);
    for sentinel in deployment.sentinels_mut() {
        assert_eq!(text(sentinel.call(&["PING"]).await.unwrap()), "PONG");
    }
    let unknown = SentinelRig::url_of(&[rig.sentinels()[0].port], "nobody");
    let error = open(&unknown).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}

#[tokio::test]
async fn each_of_several_primaries_is_a_deployment() {
    let primaries: Vec<Redis> = (0..3).map(|_| Redis::start()).collect();
    let builder = Client::builder().primaries(primaries.iter().map(Redis::url));
    let mut servers = Servers::open(builder).await.unwrap();
    assert!(servers.has_several_primaries());
    assert_eq!(servers.deployments().len(), 3);
    for deployment in servers.deployments_mut() {
        deployment.primaries_mut()[0].call(&["PING"]).await.unwrap();
    }
}

#[tokio::test]
async fn a_subscription_reports_its_outcome() {
    let redis = Redis::start();
    redis.run(&[
        "ACL", "SETUSER", "limited", "reset", "on", ">sesame", "~*", "-@all", "+time",
    ]);
    let mut servers = open(&redis.url()).await.unwrap();
    let server = &mut servers.deployments_mut()[0].primaries_mut()[0];
    for word in ["SUBSCRIBE", "unsubscribe"] {
        let Reply::Array(parts) = server.call(&[word, "messages"]).await.unwrap() else {
            panic!("no array");
        };
        assert_eq!(text(parts[0].clone()), word.to_lowercase());
        assert_eq!(text(parts[1].clone()), "messages");
    }
    // The next reply belongs to the next command.
    assert_eq!(text(server.call(&["PING"]).await.unwrap()), "PONG");

    let mut servers = open(&format!("redis://limited:sesame@127.0.0.1:{}", redis.port))
        .await
        .unwrap();
    let server = &mut servers.deployments_mut()[0].primaries_mut()[0];
    let refused = server.ask(&["SUBSCRIBE", "messages"]).await.unwrap();
    assert!(
        matches!(&refused, Err(CallError::Server { code, .. }) if code == "NOPERM"),
        "{refused:?}"
    );
    assert!(matches!(server.call(&["TIME"]).await.unwrap(), Reply::Array(_)));
}

#[tokio::test]
async fn test_keys_have_the_prefix_and_are_new_each_time() {
    let redis = Redis::start();
    let options = Client::builder().url(redis.url()).key_prefix("shop:");
    let servers = Servers::open(options).await.unwrap();
    let (plain, braced) = servers.test_keys();
    let start = |key: &[u8], expected: &str| String::from_utf8(key.to_vec()).unwrap().starts_with(expected);
    assert!(start(&plain.name, "shop:"));
    assert!(start(&plain.key, "steadlock:{shop:"));
    assert!(start(&braced.unwrap().key, "steadlock::shop:{"));
    assert_ne!(plain, servers.test_keys().0);
}

/// Returns the first word of the reply to ROLE: `master` or `slave`.
async fn role(url: &str) -> Result<String, Error> {
    let mut servers = open(url).await?;
    let server = &mut servers.deployments_mut()[0].primaries_mut()[0];
    let Reply::Array(role) = server.call(&["ROLE"]).await? else {
        panic!("no array")
    };
    Ok(text(role[0].clone()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_skipped_for_the_primary_as_in_a_client() {
    let Some(hosts) = Hosts::of("a_replica_is_skipped_for_the_primary_as_in_a_client") else {
        return;
    };
    let two = TwoServers::start();
    two.make_first_a_replica();
    for addresses in [[FIRST, SECOND], [SECOND, FIRST]].repeat(3) {
        hosts.lead(&[(NAME, &addresses)]);
        assert_eq!(role(&two.url()).await.unwrap(), "master");
    }
    // A tool may look at a replica if the name leads to no primary.
    hosts.lead(&[(NAME, &[UNUSED, FIRST])]);
    assert_eq!(role(&two.url()).await.unwrap(), "slave");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_distant_primary_is_awaited_although_a_replica_answered_first() {
    let Some(hosts) = Hosts::of("a_distant_primary_is_awaited_although_a_replica_answered_first") else {
        return;
    };
    let two = TwoServers::start();
    two.make_first_a_replica();
    let to_primary = Proxy::with_delay(two.servers[1].port, Duration::from_millis(300));
    let _to_replica = Proxy::at(FIRST, to_primary.port, two.servers[0].port);
    hosts.lead(&[(NAME, &[FIRST, "127.0.0.1"])]);
    let url = format!("redis://{NAME}:{}", to_primary.port);
    assert_eq!(role(&url).await.unwrap(), "master");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_to_two_primaries_is_refused_as_in_a_client() {
    let Some(hosts) = Hosts::of("a_name_that_leads_to_two_primaries_is_refused_as_in_a_client") else {
        return;
    };
    let two = TwoServers::start();
    two.hide_run_id();
    hosts.lead(&[(NAME, &[FIRST, SECOND])]);
    for url in [two.url(), two.url_of_user()] {
        let error = role(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.message().contains("several servers"), "{error}");
    }
    two.grant_all_except(&["info", "set"]);
    let error = role(&two.url_of_user()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("cannot be told"), "{error}");
    // Two addresses of one server are one server.
    two.hide_run_id();
    two.proxies[1].lead_to(two.servers[0].port);
    for url in [two.url(), two.url_of_user()] {
        assert_eq!(role(&url).await.unwrap(), "master");
    }
}
