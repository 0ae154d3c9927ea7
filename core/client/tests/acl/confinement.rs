//! Tests of what the rules forbid to their users, and of optional additions to the rules.

use std::time::Duration;

use redis::{Cmd, RedisError, Value, cmd};
use steadlock::{Client, ErrorKind, Lease, OnFailure, Run, Term};

use crate::rules::Rule;
use crate::support::version::Version;
use crate::support::{Redis, eventually, refusal};
use crate::work::{self, KINDS, Notice, channels_of, lock, strings};
use steadlock_protocol::Reply;

const SOON: Duration = Duration::from_secs(5);
const NAMES: [&str; 3] = ["x", "x{t}", "{t}x"];

/// Another tenant with the prefix `other:`. Every kind of lock is held and waited for, so all keys and channels exist.
struct OtherTenant {
    client: Client,
    held: Vec<Lease>,
    runs: Vec<(Run, Term)>,
    keys: Vec<String>,
    channels: Vec<String>,
}

impl OtherTenant {
    async fn on(server: &Redis) -> Self {
        let connect = || Client::builder().url(server.url()).key_prefix("other:").connect();
        let (client, waiting) = (connect().await.unwrap(), connect().await.unwrap());
        let (mut held, mut runs) = (Vec::new(), Vec::new());
        for name in NAMES {
            for kind in KINDS {
                let name = format!("{kind}-{name}");
                held.push(lock(&client, kind, &name).acquire().await.unwrap());
                let other = match kind {
                    "read_lock" => lock(&waiting, "write_lock", &name),
                    kind => lock(&waiting, kind, &name),
                };
                tokio::spawn(async move { other.acquire().await });
            }
            let job = client.once(name).on_failure(OnFailure::Keep);
            let failed = work::begin("start", &job.clone().key("a:{b}")).await.unwrap();
            failed.fail().await.unwrap();
            let run = work::begin("start", &client.once(format!("other-{name}")))
                .await
                .unwrap();
            runs.push((run, client.leader(name).campaign().await.unwrap()));
        }
        // Each lock has a channel, and each fair lock also has a channel of grants.
        let wanted = NAMES.len() * (KINDS.len() + 1);
        eventually("all wait", SOON, || channels_of(server, "other:").len() == wanted).await;
        let keys = strings(server.run(&["KEYS", "*"]));
        let words = [
            "token",
            "fair",
            "alive",
            "rw",
            "rw-readers",
            "semaphore",
            "once",
            "job",
            "leader",
            "term",
        ];
        for word in words.into_iter().chain(["done-a%3A%7Bb%7D"]) {
            let are = keys.iter().filter(|key| key.ends_with(&format!(":{word}")));
            assert!(are.count() >= NAMES.len(), "{word} is missing in {keys:?}");
        }
        Self {
            client,
            held,
            runs,
            keys,
            channels: channels_of(server, ""),
        }
    }
}

#[tokio::test]
async fn a_tenant_cannot_reach_keys_or_channels_of_another() {
    let server = Redis::start();
    let rule = Rule::printed("tenant");
    rule.apply(&server);
    let other = OtherTenant::on(&server).await;
    assert!(
        other
            .keys
            .iter()
            .chain(&other.channels)
            .all(|name| name.contains("other:"))
    );
    let mut tenant = redis::Client::open(rule.url(&server))
        .unwrap()
        .get_connection()
        .unwrap();
    let mut refuses = |command: &Cmd| {
        let words = command.get_packed_command();
        let answer = command.query::<Value>(&mut tenant);
        assert!(
            answer.as_ref().is_err_and(is_refusal),
            "{}: {answer:?}",
            String::from_utf8_lossy(&words)
        );
    };
    for key in &other.keys {
        for words in [
            "GET",
            "DEL",
            "EXISTS",
            "PTTL",
            "ZCARD",
            "HRANDFIELD",
            "ZPOPMIN",
            "HGET f",
            "HDEL f",
            "HEXISTS f",
            "HMGET f",
            "ZREM m",
            "ZSCORE m",
            "PEXPIRE 1",
            "SET v",
            "HSET f v",
            "ZADD 1 m",
            "ZRANGE 0 -1",
            "ZCOUNT 0 1",
            "ZRANGEBYSCORE 0 1",
        ] {
            let mut words = words.split(' ');
            refuses(cmd(words.next().unwrap()).arg(key).arg(words.collect::<Vec<_>>()));
        }
    }
    for channel in &other.channels {
        refuses(cmd("PUBLISH").arg(channel).arg("0"));
        refuses(cmd("SUBSCRIBE").arg(channel));
    }
    // The user also cannot list keys, listen to all channels, or change the server.
    for words in [
        "KEYS *",
        "SCAN 0",
        "RANDOMKEY",
        "DBSIZE",
        "FLUSHALL",
        "FLUSHDB",
        "MONITOR",
        "PSUBSCRIBE *",
        "PUBSUB CHANNELS",
        "CLIENT LIST",
        "CLIENT KILL TYPE normal",
        "CONFIG GET *",
        "CONFIG SET maxmemory 1",
        "SCRIPT FLUSH",
        "SCRIPT KILL",
        "ACL LIST",
        "SHUTDOWN",
        "REPLICAOF NO ONE",
        "EVAL return 0",
        "INFO",
        "COPY other:a tenant:a",
        "RENAME other:a tenant:a",
        "RESTORE tenant:a 0 x",
        "DUMP other:a",
        "TYPE other:a",
        "OBJECT ENCODING other:a",
    ] {
        let mut words = words.split(' ');
        refuses(cmd(words.next().unwrap()).arg(words.collect::<Vec<_>>()));
    }
    // Scripts give the user no more rights, whether the key is declared in KEYS or not.
    for (key, channel) in other.keys.iter().zip(other.channels.iter().cycle()) {
        for (body, key_count) in [
            ("return redis.call('GET', KEYS[1])", 1),
            ("return redis.call('GET', ARGV[1])", 0),
        ] {
            refuses(&mut script(&server, body, key_count, key));
        }
        refuses(&mut script(
            &server,
            "return redis.call('PUBLISH', ARGV[1], '0')",
            0,
            channel,
        ));
    }
    for lease in other.held {
        assert!(lease.is_valid());
        lease.release().await.unwrap();
    }
    for (run, term) in other.runs {
        assert!(run.is_valid() && term.is_valid());
    }
    other.client.close().await;
}

/// Loads a script, and returns the command that calls it.
fn script(server: &Redis, body: &str, key_count: usize, argument: &str) -> Cmd {
    let sha = server.run(&["SCRIPT", "LOAD", body]);
    let Reply::Bytes(sha) = sha else { panic!("{sha:?}") };
    let mut command = cmd("EVALSHA");
    command.arg(sha).arg(key_count).arg(argument);
    command
}

/// Whether an error is a refusal by the access list. Inside scripts, Redis 6.2 and 7.0 have a text and no error code.
fn is_refusal(error: &RedisError) -> bool {
    let text = error.to_string();
    let words = ["The user executing the script can't", "ACL failure in script"];
    error.code() == Some("NOPERM") || words.iter().any(|words| text.contains(words))
}

#[tokio::test]
async fn a_client_is_refused_the_locks_of_another_tenant_and_the_error_names_the_keys() {
    let server = Redis::start();
    let rule = Rule::printed("tenant");
    rule.apply(&server);
    let other = OtherTenant::on(&server).await;
    for prefix in ["other:", ""] {
        let client = Client::builder()
            .url(rule.url(&server))
            .key_prefix(prefix)
            .connect()
            .await
            .unwrap();
        for name in NAMES {
            for kind in KINDS {
                let name = match prefix {
                    "" => format!("other:{kind}-{name}"),
                    _ => format!("{kind}-{name}"),
                };
                let lock = lock(&client, kind, &name);
                for error in [
                    refusal(lock.try_acquire().await),
                    refusal(lock.is_locked().await),
                    refusal(client.force_release(&lock).await),
                    refusal(client.set_limit(&name, 5).await),
                ] {
                    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
                    assert!(
                        error.message().contains("keys") && error.message().contains("other:"),
                        "{error}"
                    );
                }
            }
        }
        client.close().await;
    }
    assert!(other.held.iter().all(Lease::is_valid));
    assert_eq!(strings(server.run(&["KEYS", "*"])).len(), other.keys.len());
}

/// Tests an attack that SECURITY.md warns about. The tenant's rule limits it to one tenant: another tenant can neither
/// read the queue nor publish on the channel (see above).
#[tokio::test]
async fn a_user_who_can_read_a_queue_and_publish_on_its_channel_can_forge_grants() {
    let server = Redis::start();
    let rule = Rule::printed("tenant");
    rule.apply(&server);
    let connect = || Client::builder().url(rule.url(&server)).key_prefix("tenant:").connect();
    let (holder, client) = (connect().await.unwrap(), connect().await.unwrap());
    let held = holder.fair_lock("f").acquire().await.unwrap();
    let lock = client.fair_lock("f").wait(SOON);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    let grants = "steadlock:{tenant:f}:grants:";
    eventually("the waiter waits", SOON, || !channels_of(&server, grants).is_empty()).await;

    // The attacker is a member of the same tenant, with the rights of the rule. It repeats the forgery, because the
    // waiter ignores a grant with an old time of its last attempt.
    let mut member = redis::Client::open(rule.url(&server))
        .unwrap()
        .get_connection()
        .unwrap();
    let mut forge = || {
        let queue: Vec<String> = cmd("ZRANGE")
            .arg("steadlock:{tenant:f}:fair")
            .arg(&["0", "0"])
            .query(&mut member)
            .unwrap();
        let Some(first) = queue.first() else { return };
        let seen: Option<String> = cmd("HGET")
            .arg("steadlock:{tenant:f}:alive")
            .arg(first)
            .query(&mut member)
            .unwrap();
        let Some(seen) = seen else { return };
        // The same time also serves as the token: the server could have granted this token at that moment.
        let seen = seen.split(' ').next().unwrap();
        let forged = format!("{first} {seen} {seen}");
        let channel = format!("{grants}{}", first.split(':').next().unwrap());
        let _receivers: i64 = cmd("PUBLISH").arg(channel).arg(forged).query(&mut member).unwrap();
    };
    eventually("a forged message is believed", SOON, || {
        forge();
        waiter.is_finished()
    })
    .await;
    let forged = waiter.await.unwrap().unwrap();
    assert!(forged.is_valid() && held.is_valid(), "two holders, by a forged message");
}

#[tokio::test]
async fn watchers_cannot_write_and_clients_cannot_force_a_release() {
    let server = Redis::start();
    let (watcher, locks) = (Rule::printed("watcher"), Rule::printed("locks"));
    watcher.apply(&server);
    locks.apply(&server);
    let holder = Client::connect(server.url()).await.unwrap();
    let watching = Client::connect(watcher.url(&server)).await.unwrap();
    let client = Client::connect(locks.url(&server)).await.unwrap();
    for kind in KINDS {
        let name = format!("orders:{kind}");
        let held = lock(&holder, kind, &name).acquire().await.unwrap();
        let seen = lock(&watching, kind, &name);
        assert_eq!(
            refusal(watching.force_release(&seen).await).kind(),
            ErrorKind::Misconfigured,
            "{kind}"
        );
        let free = lock(&watching, kind, &format!("{name}-free"));
        assert_eq!(
            refusal(free.try_acquire().await).kind(),
            ErrorKind::Misconfigured,
            "{kind}"
        );
        if ["lock", "mutex", "fair_lock"].contains(&kind) {
            let result = client.force_release(&lock(&client, kind, &name)).await;
            assert_eq!(refusal(result).kind(), ErrorKind::Misconfigured, "{kind}");
        }
        assert!(held.is_valid());
        held.release().await.unwrap();
    }
    let _held = holder.semaphore("orders:limit", 2).acquire(1).await.unwrap();
    let result = watching.set_limit("orders:limit", 5).await;
    assert_eq!(refusal(result).kind(), ErrorKind::Misconfigured);
    assert_eq!(strings(server.run(&["KEYS", "*-free*"])), [""; 0]);
}

#[tokio::test]
async fn the_rules_also_work_in_an_acl_file() {
    let folder = std::env::temp_dir();
    let file = folder.join(format!("steadlock-acl-{}", std::process::id()));
    let rules = crate::rules::users()
        .into_iter()
        .map(|user| Rule::printed(&user).in_file());
    std::fs::write(
        &file,
        rules.collect::<String>() + "user default on nopass ~* &* +@all\n",
    )
    .unwrap();
    let server = Redis::start_with(&["--aclfile", file.to_str().unwrap()], None);
    let client = Client::connect(Rule::printed("locks").url(&server)).await.unwrap();
    client
        .lock("orders:1")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    assert_eq!(
        refusal(client.lock("payments:1").acquire().await).kind(),
        ErrorKind::Misconfigured
    );
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn a_database_in_the_url_needs_select() {
    let server = Redis::start();
    let rule = Rule::printed("locks");
    rule.apply(&server);
    let error = refusal(Client::connect(format!("{}/1", rule.url(&server))).await);
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("select"), "{error}");
    rule.with("+select").apply(&server);
    let client = Client::connect(format!("{}/1", rule.url(&server))).await.unwrap();
    let lease = client.lock("orders:1").acquire().await.unwrap();
    lease.release().await.unwrap();
}

/// Starts three servers with a user by this rule. Returns the servers and their URLs for it.
fn three_with(rule: &Rule) -> (Vec<Redis>, Vec<String>) {
    let servers: Vec<Redis> = (0..3).map(|_| Redis::start()).collect();
    let urls = servers.iter().map(|server| {
        rule.apply(server);
        rule.url(server)
    });
    let urls = urls.collect();
    (servers, urls)
}

#[tokio::test]
async fn redlock_clients_distinguish_their_servers_with_and_without_info() {
    for (rule, prefix) in [("locks", ""), ("tenant", "tenant:")] {
        for right in [None, Some("+info")] {
            let rule = Rule::printed(rule);
            let rule = right.map_or_else(|| rule.clone(), |right| rule.with(right));
            let (servers, urls) = three_with(&rule);
            let client = Client::builder().primaries(urls).key_prefix(prefix);
            let client = client.connect().await.unwrap();
            let lease = client.lock("orders:1").acquire().await.unwrap();
            lease.extend(None).await.unwrap();
            assert!(client.lock("orders:1").try_acquire().await.unwrap().is_none());
            lease.release().await.unwrap();
            let refused = servers.iter().flat_map(crate::refused);
            let known = |what: &String| what.starts_with("client") || right.is_none() && what.starts_with("info");
            let unknown: Vec<String> = refused.filter(|what| !known(what)).collect();
            assert!(unknown.is_empty(), "{unknown:?}");
        }
    }
}

#[tokio::test]
async fn redlock_watchers_need_info() {
    let rule = Rule::printed("watcher");
    let (servers, urls) = three_with(&rule);
    let error = refusal(Client::builder().primaries(urls.clone()).connect().await);
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("+info"), "{error}");
    for server in &servers {
        rule.with("+info").apply(server);
    }
    let client = Client::builder().primaries(urls).connect().await.unwrap();
    assert!(!client.lock("orders:1").is_locked().await.unwrap());
}

#[tokio::test]
async fn with_client_setinfo_the_acl_log_of_the_server_is_empty() {
    let version = Version::chosen();
    if version == Version::Redis62 || version == Version::System {
        // CLIENT SETINFO exists since Redis 7.2. An older server does not know the subcommand.
        return;
    }
    let server = Redis::start();
    let rule = Rule::printed("locks").with("+client|setinfo").with("+info");
    rule.apply(&server);
    let result = work::run_as_client(&server, &rule.url(&server), "", "orders:1", Notice::Messages).await;
    result.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(crate::refused(&server), [""; 0]);
}
