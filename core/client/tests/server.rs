//! Tests that need a real server: connecting, credentials, restarts, and the number of calls.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use steadlock::host::{Completion, Host, Kind, LockRef, Op, Options};
use steadlock::observe::{Observation, Observer};
use steadlock::{Client, Error, ErrorKind, LostReason, ReleaseOutcome, blocking};
use steadlock_protocol::Reply;
use support::{Redis, eventually, unused_port};

async fn refusal(url: String) -> Error {
    Client::connect(url).await.map(|_| ()).expect_err("no client")
}

#[tokio::test]
async fn an_uncontended_lock_and_unlock_costs_two_script_calls() {
    let server = Redis::start();
    let client = Client::builder().url(server.url()).without_client_info();
    let client = client.connect().await.unwrap();
    let lock = client.lock("a");
    for round in 1..=10 {
        let outer = lock.acquire().await.unwrap();
        // A re-entry makes no server call.
        lock.within(&outer).acquire().await.unwrap().release().await.unwrap();
        outer.release().await.unwrap();
        assert_eq!(server.calls("evalsha"), 2 * round);
        assert_eq!(server.calls("eval"), 0);
    }
}

#[tokio::test]
async fn idle_waiters_of_one_process_poll_at_most_twice_a_second() {
    let server = Redis::start();
    let (holder, client) = (
        Client::connect(server.url()).await.unwrap(),
        Client::connect(server.url()).await.unwrap(),
    );
    let held = holder.lock("a").lease(Duration::from_secs(60)).acquire().await.unwrap();
    let waiters: Vec<_> = (0..8)
        .map(|_| {
            let lock = client.lock("a");
            tokio::spawn(async move { lock.acquire().await.map(drop) })
        })
        .collect();
    eventually("the first attempts are over", Duration::from_secs(5), || {
        // Some of the calls are not attempts: both clients write their client info, and one reads that of the other.
        server.calls("evalsha") >= 6
    })
    .await;
    let (start, before) = (Instant::now(), server.calls("evalsha"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let polls = || u128::from(server.calls("evalsha") - before);
    eventually("waiters poll again", Duration::from_secs(20), || polls() >= 3).await;
    let (polls, passed) = (polls(), start.elapsed());
    // The first poll can come at once.
    assert!(polls <= passed.as_millis() / 500 + 1, "{polls} in {passed:?}");
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_refused_connection_is_unavailable_and_names_the_server() {
    let port = unused_port();
    let error = refusal(format!("redis://user:sesame@127.0.0.1:{port}")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(!error.to_string().contains("sesame"));
}

#[tokio::test]
async fn an_unresolvable_host_and_a_missing_socket_are_unavailable() {
    for url in ["redis://nowhere.invalid", "redis+unix:///nowhere/redis.sock"] {
        let error = refusal(url.into()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.node().is_some_and(|node| node.contains("nowhere")), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_misconfigured_and_never_repeated() {
    let server = Redis::start_with(&[], Some("right"));
    for credentials in ["", ":sesame@", "nobody:sesame@", "default:sesame@"] {
        let error = refusal(format!("redis://{credentials}127.0.0.1:{}", server.port)).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{credentials}: {error}");
        assert!(!format!("{error} {error:?}").contains("sesame"));
    }
    let client = Client::connect(server.url()).await.unwrap();
    let _lease = client.lock("a").acquire().await.unwrap();
}

#[tokio::test]
async fn a_user_who_may_not_run_scripts_is_misconfigured() {
    let server = Redis::start();
    server.run(&[
        "ACL",
        "SETUSER",
        "weak",
        "on",
        ">pw",
        "~*",
        "&*",
        "+@all",
        "-@scripting",
    ]);
    let error = refusal(format!("redis://weak:pw@127.0.0.1:{}", server.port)).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_misconfigured_and_one_that_does_is_used() {
    let server = Redis::start();
    let error = refusal(format!("{}/99", server.url())).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let client = Client::connect(format!("{}/3", server.url())).await.unwrap();
    let _lease = client.lock("a").acquire().await.unwrap();
    assert_eq!(server.run(&["EXISTS", "a"]), Reply::Int(0));
}

#[tokio::test]
async fn a_replica_is_misconfigured() {
    let primary = Redis::start();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &primary.port.to_string()], None);
    let error = refusal(replica.url()).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("primary"), "{error}");
}

#[tokio::test]
async fn a_unix_socket_works() {
    let server = Redis::start();
    let url = format!("redis+unix://{}?db=1", server.socket().display());
    let client = Client::connect(url).await.unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn a_key_prefix_goes_before_every_key() {
    let server = Redis::start();
    let client = Client::builder()
        .url(server.url())
        .key_prefix("shop:")
        .connect()
        .await
        .unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    assert_eq!(lease.name(), "a");
    let error = client
        .lock("a")
        .wait(Duration::from_millis(5))
        .acquire()
        .await
        .unwrap_err();
    assert_eq!(error.lock_name(), Some("a"), "errors have the name without the prefix");
    assert_eq!(
        server.run(&["EXISTS", "shop:a", "steadlock:{shop:a}:token"]),
        Reply::Int(2)
    );
}

#[tokio::test]
async fn lost_scripts_are_loaded_again_in_order() {
    let server = Redis::start();
    let client = Client::connect(server.url()).await.unwrap();
    for _ in 0..5 {
        server.run(&["SCRIPT", "FLUSH"]);
        let leases: Vec<_> = (0..20)
            .map(|number| {
                let lock = client.lock(format!("name-{number}"));
                tokio::spawn(async move { lock.acquire().await })
            })
            .collect();
        for lease in leases {
            let lease = lease.await.unwrap().unwrap();
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
        }
    }
}

#[tokio::test]
async fn killed_connections_are_restored_and_nothing_is_lost() {
    let server = Redis::start();
    let client = Client::connect(server.url()).await.unwrap();
    let held = client.lock("held").acquire().await.unwrap();
    let waiter = {
        let other = Client::connect(server.url()).await.unwrap();
        tokio::spawn(async move {
            other
                .lock("held")
                .acquire()
                .await
                .map(|lease| (lease.token(), other.clone()))
        })
    };
    for kind in ["normal", "pubsub", "normal"] {
        let _ = redis::cmd("CLIENT")
            .arg(&["KILL", "TYPE", kind, "SKIPME", "yes"])
            .query::<i64>(&mut server.connection());
        let lease = client.lock("a").wait(Duration::from_secs(5)).acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }
    assert!(held.is_valid());
    let token = held.token();
    held.release().await.unwrap();
    let (next, _other) = tokio::time::timeout(Duration::from_secs(5), waiter)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(next > token);
}

#[tokio::test]
async fn a_restarted_server_is_found_again_and_tokens_rise() {
    let mut server = Redis::start();
    let client = Client::builder()
        .url(server.url())
        .lease(Duration::from_millis(900))
        .connect()
        .await
        .unwrap();
    let lease = client.lock("a").acquire().await.unwrap();
    let token = lease.token();
    server.stop();
    server.start_again();
    let lost = tokio::time::timeout(Duration::from_secs(5), lease.lost())
        .await
        .unwrap();
    assert!(matches!(lost, LostReason::Removed | LostReason::Expired), "{lost:?}");
    // The lost lease must not block this acquisition.
    let next = client.lock("a").wait(Duration::from_secs(5)).acquire().await;
    let next = next.unwrap_or_else(|error| panic!("{error}"));
    assert!(next.token() > token);
}

#[tokio::test]
async fn a_server_that_is_gone_is_unavailable_and_named() {
    let mut server = Redis::start();
    let client = Client::builder()
        .url(server.url())
        .lease(Duration::from_secs(1))
        .command_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    server.stop();
    let address = format!("127.0.0.1:{}", server.port);
    for error in [
        client.lock("a").try_acquire().await.map(|_| ()).unwrap_err(),
        client
            .lock("a")
            .wait(Duration::from_millis(100))
            .acquire()
            .await
            .map(|_| ())
            .unwrap_err(),
        client.lock("a").acquire().await.map(|_| ()).unwrap_err(),
        client.lock("a").is_locked().await.map(|_| ()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(&address), "{error}");
    }
    server.start_again();
    let _lease = client.lock("a").wait(Duration::from_secs(5)).acquire().await.unwrap();
}

#[tokio::test]
async fn without_the_right_to_subscribe_a_waiter_polls() {
    let server = Redis::start();
    server.run(&[
        "ACL",
        "SETUSER",
        "unsubscribed",
        "on",
        ">pw",
        "~*",
        "resetchannels",
        "+@all",
    ]);
    let holder = Client::connect(server.url()).await.unwrap();
    let client = Client::connect(format!("redis://unsubscribed:pw@127.0.0.1:{}", server.port))
        .await
        .unwrap();
    let held = holder.lock("a").acquire().await.unwrap();
    let waiter = {
        let lock = client.lock("a").wait(Duration::from_secs(5));
        tokio::spawn(async move { lock.acquire().await.map(drop) })
    };
    eventually("the subscription was refused once", Duration::from_secs(5), || {
        server.calls("evalsha") >= 2
    })
    .await;
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap();
}

#[test]
fn threads_share_a_blocking_client() {
    let server = Redis::start();
    let client = blocking::Client::connect(server.url()).unwrap();
    let mut counter = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let lease = client.lock("counter").acquire().unwrap();
                    let read = counter.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    counter.store(read + 1, Ordering::Relaxed);
                    lease.release().unwrap();
                }
            });
        }
    });
    assert_eq!(*counter.get_mut(), 1_600);
    assert!(client.lock("counter").try_acquire().unwrap().is_some());
    client.close();
    assert_eq!(
        client.lock("counter").try_acquire().unwrap_err().kind(),
        ErrorKind::Closed
    );
}

#[test]
fn a_flood_of_calls_does_not_keep_the_engine_from_sending() {
    let server = Redis::start();
    let options = Options {
        url: Some(server.url()),
        ..Options::default()
    };
    let host = Host::open(options, Box::new(|| {})).unwrap();
    host.wait_connected().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut events = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    // A local check, without a server call: the thread makes as many of these as it can.
                    host.submit(Op::Held {
                        lock: LockRef::One(Kind::Lock, "a".into()),
                        context: 1,
                    });
                    events.clear();
                    host.drain(&mut events);
                }
            });
        }
        let mut pending = host.start(Op::Inspect {
            lock: LockRef::One(Kind::Lock, "a".into()),
        });
        let result = pending.wait(Duration::from_secs(5));
        done.store(true, Ordering::Relaxed);
        assert!(matches!(result, Some(Ok(Completion::State(_)))), "{result:?}");
    });
}

/// An observer that counts lost connections.
#[derive(Clone, Default)]
struct Losses(Arc<AtomicU32>);

impl Observer for Losses {
    fn observe(&self, observation: &Observation) {
        if matches!(observation, Observation::Disconnected { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The other program's data is longer than any reply that a client accepts.
#[tokio::test]
async fn another_programs_65_megabytes_do_not_cost_the_connection_of_other_locks() {
    let (server, losses) = (Redis::start(), Losses::default());
    let script = "local long = string.rep('x', 65 * 1024 * 1024) \
                  redis.call('HSET', 'hash', long, '1') \
                  redis.call('SET', 'text', long)";
    server.run(&["EVAL", script, "0"]);
    // The server copies the data at each call that reads them, which can take a second on a busy machine.
    let client = Client::builder()
        .url(server.url())
        .command_timeout(Duration::from_secs(30))
        .observer(losses.clone())
        .connect()
        .await
        .unwrap();
    let kept = client.lock("kept").acquire().await.unwrap();
    // Longer than one such call. Without any answer the wait would end with `Unavailable`.
    let foreign = client.mutex("text").wait(Duration::from_secs(15));
    let waiter = tokio::spawn(async move { foreign.acquire().await.map(drop) });
    while !waiter.is_finished() {
        client.lock("other").acquire().await.unwrap().release().await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let timed_out = waiter.await.unwrap().unwrap_err();
    assert_eq!(timed_out.kind(), ErrorKind::LockTimeout, "{timed_out}");
    for error in [
        client.lock("hash").try_acquire().await.map(drop).unwrap_err(),
        client.mutex("hash").try_acquire().await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().len() < 600, "{} bytes", error.to_string().len());
    }
    assert!(
        timed_out.to_string().len() < 600,
        "{} bytes",
        timed_out.to_string().len()
    );
    assert_eq!(losses.0.load(Ordering::Relaxed), 0, "lost connections");
    assert_eq!(kept.release().await.unwrap(), ReleaseOutcome::Released);
}
