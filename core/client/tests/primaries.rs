//! Primaries of a `redlock` client that cannot read their run ids. The client distinguishes them by a key that it
//! writes.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use steadlock::observe::{Observation, Observer};
use steadlock::{Client, Error, ErrorKind, ReleaseOutcome};
use steadlock_protocol::Reply;
use support::fake_sentinel::FakeSentinel;
use support::proxy::Proxy;
use support::sentinel::{SERVICE, SentinelRig};
use support::version::Version;
use support::{Redis, eventually, unused_port};

const SOON: Duration = Duration::from_secs(10);

/// Starts a server with a user that has no right to INFO.
fn server() -> Redis {
    let server = Redis::start();
    server.run(&["ACL", "SETUSER", "blind", "on", ">sesame", "~*", "&*", "+@all", "-info"]);
    server
}

/// Returns the URL for the user without the right to INFO.
fn without_info_right(url: &str) -> String {
    url.replace("://", "://blind:sesame@")
}

fn urls_without_info_right(servers: &[Redis]) -> Vec<String> {
    servers.iter().map(|server| without_info_right(&server.url())).collect()
}

fn three() -> Vec<Redis> {
    (0..3).map(|_| server()).collect()
}

async fn connect(urls: impl IntoIterator<Item = String>) -> Result<Client, Error> {
    Client::builder().primaries(urls).connect().await
}

/// The causes of lost connections and failed connection attempts.
#[derive(Clone, Default)]
struct Causes(Arc<Mutex<Vec<String>>>);

impl Observer for Causes {
    fn observe(&self, observation: &Observation) {
        if let Observation::Disconnected { cause, .. } | Observation::ConnectFailing { cause, .. } = observation {
            self.0.lock().unwrap().push(cause.clone());
        }
    }
}

impl Causes {
    async fn wait_until_same_server_is_reported(&self) {
        self.wait_until_contains("the same server").await;
    }

    async fn wait_until_contains(&self, what: &str) {
        let is_recorded = || self.0.lock().unwrap().iter().any(|cause| cause.contains(what));
        eventually(what, SOON, is_recorded).await;
    }
}

async fn check_lock(client: &Client) {
    support::check_lock(client, "probe").await;
}

async fn check_refused(urls: impl IntoIterator<Item = String>) {
    let causes = Causes::default();
    let error = match Client::builder()
        .primaries(urls)
        .observer(causes.clone())
        .connect()
        .await
    {
        Err(error) => error,
        // If the other two connected long before this one, they are a majority, so connecting succeeds. The client then
        // reports the refusal later.
        Ok(_client) => return causes.wait_until_same_server_is_reported().await,
    };
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("the same server"), "{error}");
    assert!(!error.to_string().contains("sesame"), "{error}");
}

fn keys(server: &Redis) -> Vec<String> {
    let Reply::Array(keys) = server.run(&["KEYS", "*"]) else {
        panic!("no keys")
    };
    let text = |key| match key {
        Reply::Bytes(key) => String::from_utf8(key).unwrap(),
        other => panic!("{other:?}"),
    };
    let keys = keys.into_iter().map(text);
    keys.filter(|key| !key.ends_with(":client")).collect()
}

#[tokio::test]
async fn servers_are_distinguished_by_a_temporary_key() {
    let servers = three();
    let client = Client::builder()
        .primaries(urls_without_info_right(&servers))
        .key_prefix("shop:");
    let client = client.connect().await.unwrap();
    check_lock(&client).await;
    for (node, server) in servers.iter().enumerate() {
        eventually("the lock is gone", SOON, || keys(server).len() == 1).await;
        let key = keys(server).remove(0);
        assert!(
            key.starts_with("steadlock:{shop:") && key.ends_with("}:primary"),
            "{key}"
        );
        let Reply::Int(left) = server.run(&["PTTL", &key]) else {
            panic!("no TTL")
        };
        assert!((1..=30_000).contains(&left), "{left}");
        assert_eq!(server.run(&["GET", &key]), Reply::Bytes(node.to_string().into_bytes()));
    }
    // Each client has its own key, so several clients do not disturb each other.
    check_lock(&connect(urls_without_info_right(&servers)).await.unwrap()).await;
}

#[tokio::test]
async fn nothing_is_written_if_all_servers_report_their_run_ids() {
    let servers = three();
    let asked_before: Vec<u64> = servers.iter().map(|server| server.calls("info")).collect();
    let client = connect(servers.iter().map(Redis::url)).await.unwrap();
    for (server, before) in servers.iter().zip(asked_before) {
        // Each reading sends an INFO too, which the next reading counts.
        let mut readings = 0;
        eventually("both lanes have sent a call", SOON, || {
            readings += 1;
            server.calls("info") >= before + readings + 2
        })
        .await;
        assert_eq!(server.calls("set") + server.calls("get"), 0);
        assert_eq!(server.run(&["DBSIZE"]), Reply::Int(0));
    }
    check_lock(&client).await;
}

#[tokio::test]
async fn one_server_under_two_addresses_is_refused() {
    let (a, b) = (server(), server());
    let other = format!("redis://localhost:{}", a.port);
    for _ in 0..20 {
        let urls = [a.url(), b.url(), other.clone()];
        check_refused(urls.iter().map(|url| without_info_right(url))).await;
        let urls = [other.clone(), a.url(), b.url()];
        check_refused(urls.iter().map(|url| without_info_right(url))).await;
    }
}

#[tokio::test]
async fn one_server_is_refused_also_if_only_one_of_two_users_can_read_its_run_id() {
    let (a, b) = (server(), server());
    let other = without_info_right(&format!("redis://localhost:{}", a.port));
    for _ in 0..20 {
        check_refused([a.url(), b.url(), other.clone()]).await;
        check_refused([other.clone(), a.url(), b.url()]).await;
        check_refused([other.clone(), without_info_right(&b.url()), a.url()]).await;
    }
    // A third server is accepted. A third address of one of the two servers is refused.
    let proxy = Proxy::to(a.port);
    check_lock(
        &connect([a.url(), b.url(), without_info_right(&server().url())])
            .await
            .unwrap(),
    )
    .await;
    check_refused([a.url(), b.url(), without_info_right(&proxy.url())]).await;
}

#[tokio::test]
async fn two_databases_of_one_server_are_one_server() {
    let (a, b) = (server(), server());
    let of = |database: u8| format!("{}/{database}", without_info_right(&a.url()));
    check_refused([
        format!("redis://blind:sesame@localhost:{}/0", a.port),
        of(1),
        without_info_right(&b.url()),
    ])
    .await;
    check_refused([
        format!("redis://blind:sesame@localhost:{}/3", a.port),
        of(1),
        without_info_right(&b.url()),
    ])
    .await;
    // The locks are in the database that the URL names.
    let servers = three();
    let client = Client::builder().primaries(urls_without_info_right(&servers).into_iter().map(|url| url + "/3"));
    let client = client.without_client_info().connect().await.unwrap();
    let lease = client.lock("in-three").acquire().await.unwrap();
    for server in &servers {
        let info = || match server.run(&["INFO", "keyspace"]) {
            Reply::Bytes(text) => String::from_utf8(text).unwrap(),
            other => panic!("{other:?}"),
        };
        eventually("the key is in database 3", SOON, || info().contains("db3:keys=1,")).await;
        assert!(info().contains("db0:keys=1,"), "{}", info());
    }
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_server_without_info_is_accepted() {
    let servers: Vec<Redis> = (0..3)
        .map(|_| Redis::start_with(&["--rename-command", "INFO", ""], None))
        .collect();
    check_lock(&connect(servers.iter().map(Redis::url)).await.unwrap()).await;
    let other = format!("redis://localhost:{}", servers[0].port);
    check_refused([servers[0].url(), servers[1].url(), other]).await;
}

#[tokio::test]
async fn a_user_without_info_and_without_writes_learns_which_rights_are_missing() {
    let servers = three();
    for server in &servers {
        server.run(&["ACL", "SETUSER", "blind", "-set"]);
    }
    let error = connect(urls_without_info_right(&servers))
        .await
        .map(drop)
        .expect_err("the servers cannot be distinguished");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    for text in ["set", "+info", "+pexpire"] {
        assert!(error.to_string().contains(text), "{error}");
    }
}

/// Three servers behind proxies that a test can lead to other servers, and a client of the proxies.
struct ProxiedServers {
    servers: Vec<Redis>,
    proxies: Vec<Proxy>,
    client: Client,
    causes: Causes,
}

impl ProxiedServers {
    async fn start() -> Self {
        let servers = three();
        let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::to(server.port)).collect();
        let causes = Causes::default();
        let urls = proxies.iter().map(|proxy| without_info_right(&proxy.url()));
        let client = Client::builder().primaries(urls).observer(causes.clone());
        let client = client.connect().await.unwrap();
        check_lock(&client).await;
        Self {
            servers,
            proxies,
            client,
            causes,
        }
    }

    /// Leads an address to this server from now on, and cuts its connections.
    fn redirect(&self, address: usize, server: usize) {
        self.proxies[address].lead_to(self.servers[server].port);
        self.proxies[address].cut_all();
    }
}

#[tokio::test]
async fn an_address_that_later_leads_to_the_server_of_another_is_unused_until_it_leads_elsewhere() {
    let mut setup = ProxiedServers::start().await;
    setup.redirect(2, 0);
    setup.causes.wait_until_same_server_is_reported().await;
    setup.redirect(2, 2);
    setup.servers[1].stop();
    // The third server is needed for the majority.
    check_lock(&setup.client).await;
}

/// When another primary connects, the connected ones check their keys again, unless they did within the last 15 s.
#[tokio::test]
async fn the_server_of_another_address_is_recognized_also_after_its_key_has_expired() {
    let mut setup = ProxiedServers::start().await;
    let server = &setup.servers[0];
    tokio::time::sleep(Duration::from_secs(16)).await;
    // Deletes the key, as if its TTL had ended.
    let key = keys(server).into_iter().find(|key| key.ends_with(":primary")).unwrap();
    server.run(&["DEL", &key]);
    setup.redirect(2, 0);
    setup.causes.wait_until_same_server_is_reported().await;
    let number = Reply::Bytes(b"0".to_vec());
    assert_eq!(server.run(&["GET", &key]), number, "the first keeps its server");
    setup.servers[1].stop();
    setup.redirect(2, 2);
    check_lock(&setup.client).await;
}

#[tokio::test]
async fn a_promoted_replica_counts_as_its_former_primary() {
    let mut setup = ProxiedServers::start().await;
    let replica = server();
    replica.run(&["REPLICAOF", "127.0.0.1", &setup.servers[0].port.to_string()]);
    let has_the_key = || keys(&replica).iter().any(|key| key.ends_with(":primary"));
    eventually("the replica has the data of its primary", SOON, has_the_key).await;
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    setup.servers.push(replica);
    setup.redirect(0, 3);
    setup.servers[1].stop();
    check_lock(&setup.client).await;
    assert_eq!(
        setup
            .causes
            .0
            .lock()
            .unwrap()
            .iter()
            .filter(|cause| cause.contains("same server"))
            .count(),
        0
    );
}

/// The former replica has a copy of the other primary's key until the copy's TTL ends.
#[tokio::test]
async fn a_former_replica_counts_as_its_former_primary_until_the_copied_key_expires() {
    let mut setup = ProxiedServers::start().await;
    let replica = server();
    replica.run(&["REPLICAOF", "127.0.0.1", &setup.servers[0].port.to_string()]);
    let copy = || keys(&replica).into_iter().find(|key| key.ends_with(":primary"));
    eventually("the replica has the data of its primary", SOON, || copy().is_some()).await;
    replica.run(&["REPLICAOF", "NO", "ONE"]);
    let copy = copy().expect("the key");
    setup.servers.push(replica);
    setup.redirect(2, 3);
    setup.causes.wait_until_same_server_is_reported().await;
    // Deletes the copy, as if its TTL had ended.
    setup.servers[3].run(&["DEL", &copy]);
    setup.servers[1].stop();
    check_lock(&setup.client).await;
}

#[tokio::test]
async fn a_cluster_is_identified_by_its_nodes_and_gets_no_key() {
    let (cluster, singles) = (Redis::start_cluster(Version::chosen(), &[]), [server(), server()]);
    let url = cluster.url().replace("redis://", "redis+cluster://");
    let client = connect([
        url,
        without_info_right(&singles[0].url()),
        without_info_right(&singles[1].url()),
    ]);
    let client = client.await.unwrap();
    check_lock(&client).await;
    // The client needs only two of the three to connect and for a grant, so this waits for the third one.
    let held = client.lock("held").acquire().await.unwrap();
    for server in [&cluster, &singles[0], &singles[1]] {
        eventually("all servers have the record", SOON, || {
            keys(server).iter().any(|key| key == "held")
        })
        .await;
    }
    for single in &singles {
        assert!(keys(single).iter().any(|key| key.ends_with(":primary")));
    }
    assert!(!keys(&cluster).iter().any(|key| key.ends_with(":primary")));
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_full_server_is_accepted_if_it_was_identified_before() {
    let setup = ProxiedServers::start().await;
    let set_maxmemory = |bytes: &str| {
        for server in &setup.servers {
            server.run(&["CONFIG", "SET", "maxmemory", bytes]);
        }
    };
    let held = setup.client.lock("held").acquire().await.unwrap();
    set_maxmemory("1");
    for (address, server) in setup.servers.iter().enumerate() {
        for key in keys(server).iter().filter(|key| key.ends_with(":primary")) {
            server.run(&["DEL", key]);
        }
        setup.redirect(address, address);
    }
    assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);
    let error = connect(urls_without_info_right(&setup.servers)).await.map(drop);
    let error = error.expect_err("no key can be set");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("OOM"), "{error}");
    set_maxmemory("0");
    check_lock(&connect(urls_without_info_right(&setup.servers)).await.unwrap()).await;
}

/// A primary that sentinels name, and whose run id is known, is checked again when another primary hides its run id.
#[tokio::test]
async fn a_server_that_sentinels_name_is_not_another_primary_that_comes_later() {
    let servers = three();
    let sentinel = FakeSentinel::naming(servers[0].port, 1);
    let proxy = Proxy::to(unused_port());
    let causes = Causes::default();
    let _client = Client::builder()
        .primaries([
            SentinelRig::url_of(&[sentinel.port], SERVICE),
            servers[1].url(),
            format!("{}/1", without_info_right(&proxy.url())),
        ])
        .observer(causes.clone())
        .connect()
        .await
        .unwrap();
    proxy.lead_to(servers[0].port);
    causes.wait_until_same_server_is_reported().await;
}

#[tokio::test]
async fn a_primary_that_cannot_be_used_at_first_is_retried() {
    let mut servers = three();
    servers[2].run(&["REPLICAOF", "127.0.0.1", &servers[0].port.to_string()]);
    // Pauses the third server, so that connecting succeeds with the others before it answers.
    servers[2].pause();
    let causes = Causes::default();
    let client = Client::builder()
        .primaries(servers.iter().map(Redis::url))
        .observer(causes.clone())
        .connect()
        .await
        .unwrap();
    servers[2].resume();
    causes.wait_until_contains("replica").await;
    servers[2].run(&["REPLICAOF", "NO", "ONE"]);
    servers[0].stop();
    check_lock(&client).await;
}
