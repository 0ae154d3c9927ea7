//! Tests of the plain lock on the embedded store and on a redis-server.

mod support;

use std::process::{Command, Stdio};
use std::task::Poll;
use std::time::{Duration, Instant};

use steadlock::{Client, ErrorKind, LostReason, ReleaseOutcome};
use steadlock_protocol::Reply;
use support::{Redis, Server, eventually, on_time};

const SOON: Duration = Duration::from_secs(10);
/// A lease that does not end early on a busy machine.
const LEASE: Duration = Duration::from_secs(3);

/// Makes each of these tests run once on each kind of server.
macro_rules! on_every_server {
    ($($(#[$attribute:meta])* async fn $name:ident($server:ident: &Server) $body:block)*) => {
        $(async fn $name($server: &Server) $body)*

        mod on_memory {
            use super::*;
            $(#[tokio::test] async fn $name() { super::$name(&Server::memory()).await; })*
        }

        mod on_redis {
            use super::*;
            $(#[tokio::test] async fn $name() { super::$name(&Server::redis()).await; })*
        }
    };
}

#[test]
fn a_blocking_caller_has_an_auto_renewed_lease_of_its_own_length() {
    let client = steadlock::blocking::Client::connect("memory://").unwrap();
    let length = Duration::from_millis(1_500);
    let lock = client.lock("a").lease(length).renewed();
    let permit = client.semaphore("s", 1).lease(length).renewed();
    let (lease, permit) = (lock.acquire().unwrap(), permit.acquire(1).unwrap());
    assert_eq!(lease.wait_lost(length * 5 / 4), None);
    assert!(lease.is_valid() && permit.is_valid());
    assert!(lease.remaining() <= length && permit.remaining() <= length);
    lease.release().unwrap();
    permit.release().unwrap();
    client.close();
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_after_its_own_lease() {
    let server = Redis::start();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hold_until_killed", "--ignored"])
        .env(HOLDER_URL, server.url())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let client = Client::connect(server.url()).await.unwrap();
    let (lock, semaphore) = (client.lock("a"), client.semaphore("s", 1));
    let start = Instant::now();
    // The process acquires the lock first and the permit last.
    while semaphore.available().await.unwrap() > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "the permit is free");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let owner = lock.holder().await.unwrap().expect("held").owner;
    let end = Instant::now() + HOLDER_LENGTH * 4 / 3;
    while Instant::now() < end {
        let now = lock.holder().await.unwrap().expect("still held");
        assert_eq!(now.owner, owner);
        assert!(now.remaining.unwrap() <= HOLDER_LENGTH, "{now:?}");
        assert_eq!(semaphore.available().await.unwrap(), 0);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    // With the client's default lease of 30 s, these waits would time out.
    lock.wait(SOON).acquire().await.unwrap().release().await.unwrap();
    semaphore.wait(SOON).acquire(1).await.unwrap().release().await.unwrap();
    client.close().await;
}

#[test]
#[ignore = "the process that the test above starts and kills"]
fn hold_until_killed() {
    let Ok(url) = std::env::var(HOLDER_URL) else { return };
    let client = steadlock::blocking::Client::connect(url).unwrap();
    let _lease = client.lock("a").lease(HOLDER_LENGTH).renewed().acquire().unwrap();
    let _permit = client
        .semaphore("s", 1)
        .lease(HOLDER_LENGTH)
        .renewed()
        .acquire(1)
        .unwrap();
    // This process ends by itself if the other test has failed and does not kill it.
    std::thread::sleep(Duration::from_secs(30));
}

const HOLDER_URL: &str = "STEADLOCK_TEST_HOLDER_URL";
const HOLDER_LENGTH: Duration = Duration::from_secs(3);

async fn connect(server: &Server) -> Client {
    Client::connect(server.url()).await.expect("a client")
}

on_every_server! {
    async fn a_lock_is_acquired_released_and_acquired_again(server: &Server) {
        let client = connect(server).await;
        let lock = client.lock("a");
        let first = lock.acquire().await.unwrap();
        assert!(first.is_valid() && server.exists("a"));
        assert!(lock.is_locked().await.unwrap());
        assert_eq!(first.release().await.unwrap(), ReleaseOutcome::Released);
        assert!(!server.exists("a"));
        assert!(!lock.is_locked().await.unwrap());
        assert_eq!(lock.acquire().await.unwrap().release().await.unwrap(), ReleaseOutcome::Released);
    }

    async fn an_auto_renewed_lease_of_its_own_length_is_kept_beyond_it(server: &Server) {
        let client = connect(server).await;
        let length = Duration::from_millis(1_500);
        for lock in [
            client.lock("a").lease(length).renewed(),
            client.lock("a").renewed().lease(length),
            client.semaphore("s", 1).lease(length).renewed().permits(1),
        ] {
            let lease = lock.acquire().await.unwrap();
            let end = Instant::now() + length * 5 / 4;
            while Instant::now() < end {
                let left = lock.holder().await.unwrap().expect("held").remaining.unwrap();
                assert!(left <= length, "{left:?} on record");
                assert!(lease.is_valid() && lease.remaining() <= length);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
        }
    }

    async fn an_auto_renewed_lease_without_a_length_has_that_of_the_client(server: &Server) {
        let client = connect(server).await;
        let lease = client.lock("a").renewed().acquire().await.unwrap();
        assert!(lease.remaining() > Duration::from_secs(25));
        lease.release().await.unwrap();
    }

    async fn a_length_that_is_too_short_to_be_renewed_is_refused(server: &Server) {
        let client = connect(server).await;
        let error = client.lock("a").lease(Duration::from_millis(200)).renewed().acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("200ms") && error.message().contains("300ms"), "{error}");
        assert_eq!(error.lock_name(), Some("a"));
        assert!(!server.exists("a"));
    }

    async fn reentry_with_a_longer_auto_renewed_lease_prolongs_the_hold(server: &Server) {
        let client = connect(server).await;
        let lock = client.lock("a").renewed();
        let outer = lock.clone().lease(LEASE).acquire().await.unwrap();
        let inner = lock.lease(Duration::from_secs(20)).within(&outer).acquire().await.unwrap();
        assert!(inner.remaining() > Duration::from_secs(19) && outer.remaining() > Duration::from_secs(19));
        inner.release().await.unwrap();
        outer.release().await.unwrap();
        assert!(!server.exists("a"));
    }

    async fn a_waiter_that_times_out_learns_who_holds_the_lock(server: &Server) {
        let (ours, theirs) = (connect(server).await, connect(server).await);
        let held = ours.lock("a").lease(Duration::from_secs(10)).acquire().await.unwrap();
        assert!(theirs.lock("a").try_acquire().await.unwrap().is_none());
        let error = theirs.lock("a").wait(Duration::from_millis(500)).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockTimeout);
        assert_eq!(error.lock_name(), Some("a"));
        let holder = error.holder().expect("the holder");
        assert!(holder.remaining.unwrap() <= Duration::from_secs(10));
        held.release().await.unwrap();
        let _now = theirs.lock("a").try_acquire().await.unwrap().expect("the lock is free");
    }

    async fn a_waiter_gets_a_released_lock(server: &Server) {
        let (ours, theirs) = (connect(server).await, connect(server).await);
        let held = ours.lock("a").acquire().await.unwrap();
        let waiter = tokio::spawn(async move { theirs.lock("a").acquire().await.map(|lease| (lease, theirs)) });
        tokio::task::yield_now().await;
        held.release().await.unwrap();
        let (lease, _theirs) = waiter.await.unwrap().unwrap();
        assert!(lease.is_valid());
    }

    async fn dropping_a_lease_releases_it(server: &Server) {
        let client = connect(server).await;
        drop(client.lock("a").acquire().await.unwrap());
        eventually("the record is gone", SOON, || !server.exists("a")).await;
    }

    async fn a_lease_outlives_the_client_object_that_made_it(server: &Server) {
        let lease = connect(server).await.lock("a").acquire().await.unwrap();
        assert!(lease.is_valid() && server.exists("a"));
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
    }

    async fn a_dropped_acquire_leaves_no_key_behind(server: &Server) {
        let client = connect(server).await;
        for polls in 0..6 {
            let lock = client.lock("a");
            let mut acquire = Box::pin(lock.acquire());
            for _ in 0..polls {
                // The first poll sends the request, and each sleep lets it proceed further.
                if poll_once(acquire.as_mut()).await.is_ready() {
                    break;
                }
                tokio::time::sleep(Duration::from_micros(50)).await;
            }
            drop(acquire);
            eventually("the record is gone", SOON, || !server.exists("a")).await;
        }
        let _free = client.lock("a").acquire().await.unwrap();
    }

    async fn a_dropped_wait_costs_the_next_waiter_nothing(server: &Server) {
        let client = connect(server).await;
        let held = client.lock("a").acquire().await.unwrap();
        let lock = client.lock("a");
        assert!(tokio::time::timeout(Duration::from_millis(20), lock.acquire()).await.is_err());
        held.release().await.unwrap();
        let next = client.lock("a").wait(SOON).acquire().await.unwrap();
        next.release().await.unwrap();
        assert!(!server.exists("a"));
    }

    async fn reentry_by_within_needs_no_second_record(server: &Server) {
        let client = connect(server).await;
        let lock = client.lock("a");
        let outer = lock.acquire().await.unwrap();
        let inner = lock.within(&outer).acquire().await.unwrap();
        assert_eq!(inner.token(), outer.token());
        outer.release().await.unwrap();
        assert!(inner.is_valid() && server.exists("a"), "the inner level still holds the lock");
        inner.release().await.unwrap();
        assert!(!server.exists("a"));
    }

    async fn a_lease_whose_record_was_deleted_is_lost_and_its_release_reports_expired(server: &Server) {
        let client = Client::builder().url(server.url()).lease(LEASE).connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        let lost = lease.lost();
        server.run(&["DEL", "a"]);
        let deleted = Instant::now();
        assert_eq!(tokio::time::timeout(SOON, lost).await.unwrap(), LostReason::Removed);
        assert!(deleted.elapsed() < on_time(LEASE / 3 + Duration::from_millis(500)));
        assert!(!lease.is_valid() && lease.remaining().is_zero());
        assert_eq!(lease.lost_reason(), Some(LostReason::Removed));
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Expired);
    }

    async fn a_lease_whose_record_another_owner_replaced_is_stolen_and_the_record_stays(server: &Server) {
        let client = Client::builder().url(server.url()).lease(LEASE).connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        server.run(&["DEL", "a"]);
        server.run(&["HSET", "a", "someone:1", "1"]);
        let lost = tokio::time::timeout(SOON, lease.lost()).await.unwrap();
        assert_eq!(lost, LostReason::Stolen);
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Stolen);
        assert_eq!(server.run(&["HGET", "a", "someone:1"]), Reply::Bytes(b"1".to_vec()));
    }

    async fn flushing_the_server_loses_every_lease(server: &Server) {
        let client = Client::builder().url(server.url()).lease(LEASE).connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        server.run(&["FLUSHALL"]);
        let lost = tokio::time::timeout(SOON, lease.lost()).await.unwrap();
        assert_eq!(lost, LostReason::Removed);
    }

    async fn a_fixed_lease_expires_without_renewal(server: &Server) {
        let client = connect(server).await;
        let lease = client.lock("a").lease(Duration::from_millis(150)).acquire().await.unwrap();
        let lost = tokio::time::timeout(SOON, lease.lost()).await.unwrap();
        assert_eq!(lost, LostReason::Expired);
        eventually("the record has expired", SOON, || !server.exists("a")).await;
        // The engine has forgotten the lease, but the lease object still knows that it expired.
        assert_eq!(lease.extend(None).await.unwrap_err().kind(), ErrorKind::LockLost);
        let inside = client.lock("a").within(&lease).acquire().await;
        assert_eq!(inside.unwrap_err().kind(), ErrorKind::LockLost);
        let again = client.lock("a").acquire().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Expired);
        assert!(again.is_valid() && server.exists("a"));
    }

    async fn max_hold_ends_an_auto_renewed_lease(server: &Server) {
        let client = connect(server).await;
        let lock = client.lock("a").max_hold(Duration::from_millis(200));
        let lease = lock.acquire().await.unwrap();
        let lost = tokio::time::timeout(SOON, lease.lost()).await.unwrap();
        assert_eq!(lost, LostReason::MaxHold);
    }

    async fn an_extension_prolongs_a_lease(server: &Server) {
        let client = connect(server).await;
        let lease = client.lock("a").lease(LEASE).acquire().await.unwrap();
        lease.extend(Some(Duration::from_secs(20))).await.unwrap();
        assert!(lease.remaining() > Duration::from_secs(10));
        server.run(&["DEL", "a"]);
        assert_eq!(lease.extend(Some(Duration::from_secs(30))).await.unwrap_err().kind(), ErrorKind::LockLost);
    }

    async fn tokens_rise_across_a_flush_and_without_fencing_there_are_none(server: &Server) {
        let client = connect(server).await;
        let mut last = 0;
        for round in 0..50 {
            let lease = client.lock("a").acquire().await.unwrap();
            let token = lease.token().expect("a token");
            assert!(token > last && token < 1 << 53, "{token} after {last}");
            last = token;
            lease.release().await.unwrap();
            if round % 10 == 9 {
                server.run(&["FLUSHALL"]);
            }
        }
        let lease = client.lock("b").without_fencing().acquire().await.unwrap();
        assert_eq!(lease.token(), None);
        assert!(!server.exists("steadlock:{b}:token"));
    }

    async fn a_corrupt_token_is_refused_and_nothing_is_written(server: &Server) {
        let client = connect(server).await;
        for corrupt in ["x", "-1", "1.5", "9007199254740992", ""] {
            server.run(&["SET", "steadlock:{a}:token", corrupt]);
            let error = client.lock("a").try_acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{corrupt:?}");
            assert!(!server.exists("a"), "{corrupt:?}");
            let kept = Reply::Bytes(corrupt.as_bytes().to_vec());
            assert_eq!(server.run(&["GET", "steadlock:{a}:token"]), kept);
        }
    }

    async fn a_key_of_another_type_is_misconfigured(server: &Server) {
        let client = connect(server).await;
        server.run(&["SET", "a", "data"]);
        for error in [
            client.lock("a").acquire().await.map(|_| ()).unwrap_err(),
            client.lock("a").try_acquire().await.map(|_| ()).unwrap_err(),
            client.lock("a").is_locked().await.map(|_| ()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        }
        assert_eq!(server.run(&["GET", "a"]), Reply::Bytes(b"data".to_vec()));
    }

    async fn an_error_names_the_other_kind_that_holds_the_name(server: &Server) {
        let client = connect(server).await;
        let other = connect(server).await;
        let (lock, fair, mutex) = (client.lock("a"), client.fair_lock("a"), client.mutex("a"));
        for (holder, requested, kinds) in [
            (&lock, &mutex, "a lock or a fair_lock"),
            (&fair, &mutex, "a lock or a fair_lock"),
            (&mutex, &lock, "a mutex"),
            (&mutex, &fair, "a mutex"),
        ] {
            let lease = holder.acquire().await.unwrap();
            for error in [
                requested.acquire().await.map(|_| ()).unwrap_err(),
                requested.try_acquire().await.map(|_| ()).unwrap_err(),
                requested.is_locked().await.map(|_| ()).unwrap_err(),
                requested.holder().await.map(|_| ()).unwrap_err(),
                other.force_release(requested).await.map(|_| ()).unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
                let expected = format!("its key is held as {kinds}; use one kind of lock for each name");
                assert!(error.message().ends_with(&expected), "{error}");
            }
            assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
        }
    }

    async fn a_waiter_learns_which_other_kind_has_acquired_the_name(server: &Server) {
        let client = connect(server).await;
        let owner = "01234567-89ab-cdef-0123-456789abcdef:7";
        let (lock, mutex) = (client.lock("a"), client.mutex("a"));
        for (waiting, write, kinds) in [
            (&lock, &["SET", "a", owner][..], "a mutex"),
            (&mutex, &["HSET", "a", owner, "1"], "a lock or a fair_lock"),
        ] {
            let lease = waiting.acquire().await.unwrap();
            let other = connect(server).await;
            let requested = if kinds == "a mutex" { other.lock("a") } else { other.mutex("a") };
            let requested = requested.wait(Duration::from_secs(20));
            let mut waiter = std::pin::pin!(requested.acquire());
            let early = tokio::time::timeout(Duration::from_millis(100), waiter.as_mut()).await;
            assert!(early.is_err(), "the waiter waits");
            server.run(&["DEL", "a"]);
            server.run(write);
            let error = waiter.await.map(|_| ()).unwrap_err();
            assert!(error.message().contains(&format!("is held as {kinds};")), "{error}");
            server.run(&["DEL", "a"]);
            lease.release().await.ok();
        }
    }

    async fn another_programs_hash_is_misconfigured_for_every_verb_and_is_kept(server: &Server) {
        let client = connect(server).await;
        let long = "x".repeat(1_000_000);
        for fields in [&["name", "a", "mail", "b"][..], &["visits", "3"], &["a\nb\u{1b}[2J\u{202e}", "1"], &[&long, "1"]] {
            server.run(&["DEL", "user:42"]);
            server.run(&[&["HSET", "user:42"], fields].concat());
            let kept = server.run(&["HGETALL", "user:42"]);
            for lock in [client.lock("user:42"), client.fair_lock("user:42")] {
                for error in [
                    lock.acquire().await.map(|_| ()).unwrap_err(),
                    lock.try_acquire().await.map(|_| ()).unwrap_err(),
                    lock.is_locked().await.map(|_| ()).unwrap_err(),
                    lock.holder().await.map(|_| ()).unwrap_err(),
                    client.force_release(&lock).await.map(|_| ()).unwrap_err(),
                ] {
                    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
                    let text = error.to_string();
                    assert!(text.contains("the key \"user:42\" holds something that is not a lock"), "{text}");
                    assert!(text.len() < 600 && !text.contains(['\n', '\u{1b}', '\u{202e}']), "{text:?}");
                }
            }
            assert_eq!(server.run(&["HGETALL", "user:42"]), kept);
            assert_eq!(server.run(&["PTTL", "user:42"]), Reply::Int(-1));
            // A key with foreign data must not affect other locks of the client.
            client.lock("b").acquire().await.unwrap().release().await.unwrap();
        }
    }

    async fn a_record_that_another_programs_hash_replaced_is_stolen_and_the_hash_is_kept(server: &Server) {
        let client = Client::builder().url(server.url()).lease(LEASE).connect().await.unwrap();
        let lease = client.lock("a").acquire().await.unwrap();
        server.run(&["DEL", "a"]);
        server.run(&["HSET", "a", "name", "x", "mail", "y"]);
        let lost = tokio::time::timeout(SOON, lease.lost()).await.unwrap();
        assert_eq!(lost, LostReason::Stolen);
        assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Stolen);
        assert_eq!(server.run(&["HLEN", "a"]), Reply::Int(2));
    }

    async fn a_redisson_record_counts_as_a_holder_and_can_be_force_released(server: &Server) {
        let client = connect(server).await;
        let owner = "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:73";
        server.run(&["HSET", "a", owner, "2"]);
        server.run(&["PEXPIRE", "a", "60000"]);
        for lock in [client.lock("a"), client.fair_lock("a")] {
            assert_eq!(lock.holder().await.unwrap().expect("held").owner, owner);
            let error = lock.wait(Duration::ZERO).acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LockTimeout);
            assert_eq!(error.holder().expect("the holder").owner, owner);
        }
        assert!(client.force_release(&client.lock("a")).await.unwrap());
        assert!(!server.exists("a"));
    }

    async fn the_owner_text_of_another_librarys_mutex_is_shortened_and_escaped(server: &Server) {
        let client = connect(server).await;
        let value = format!("a\nb\u{1b}[2J\u{202e}{}", "x".repeat(1_000_000));
        server.run(&["SET", "a", &value]);
        let lock = client.mutex("a");
        let error = lock.clone().wait(Duration::ZERO).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockTimeout);
        let holders = [error.holder().expect("the holder").clone(), lock.holder().await.unwrap().expect("held")];
        for holder in holders {
            assert!(holder.owner.starts_with("a\\nb\\u{1b}[2J\\u{202e}xxx"), "{:?}", holder.owner);
            assert!(holder.owner.ends_with("x…") && holder.owner.len() < 250, "{:?}", holder.owner);
            assert_eq!(holder.remaining, None);
        }
        let text = error.to_string();
        assert!(text.len() < 600 && !text.contains(['\n', '\u{1b}', '\u{202e}']), "{text:?}");
        server.run(&["SET", "a", ""]);
        assert!(lock.try_acquire().await.unwrap().is_none(), "an empty text is a holder");
        assert!(client.force_release(&lock).await.unwrap());
        assert!(!server.exists("a"));
    }

    async fn invalid_names_and_leases_are_refused_and_write_nothing(server: &Server) {
        let client = connect(server).await;
        let long = "n".repeat(513);
        for name in ["", &long, "a\0b", "a{b", "{}a", "steadlock:a", "redisson_a"] {
            let error = client.lock(name).acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name:?}");
        }
        for lease in [Duration::ZERO, Duration::from_millis(99), Duration::from_millis(86_400_001)] {
            let error = client.lock("a").lease(lease).acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{lease:?}");
        }
        let error = client.lock("a").max_hold(Duration::from_millis(1)).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(server.run(&["DBSIZE"]), Reply::Int(0));
    }

    async fn a_closed_client_loses_its_leases_and_refuses_work(server: &Server) {
        let (client, other) = (connect(server).await, connect(server).await);
        let lease = client.lock("a").acquire().await.unwrap();
        let theirs = other.lock("b").acquire().await.unwrap();
        let waiter = {
            let lock = client.lock("b");
            tokio::spawn(async move { lock.acquire().await.map(|_| ()) })
        };
        tokio::task::yield_now().await;
        client.close().await;
        client.close().await;
        assert_eq!(lease.lost().await, LostReason::Closed);
        assert!(!server.exists("a"), "the lock was released");
        assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(client.lock("a").acquire().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(client.lock("a").is_locked().await.unwrap_err().kind(), ErrorKind::Closed);
        assert!(theirs.is_valid());
    }

    async fn sixteen_tasks_of_four_clients_lose_no_update(server: &Server) {
        let counter = std::sync::Arc::new(std::sync::Mutex::new(0_u32));
        let mut tasks = Vec::new();
        for number in 0..16 {
            let client = if number % 4 == 0 { connect(server).await } else { client_of_last_task(&tasks) };
            let counter = std::sync::Arc::clone(&counter);
            let own = client.clone();
            tasks.push((client, tokio::spawn(async move {
                for _ in 0..100 {
                    let lease = own.lock("counter").acquire().await.unwrap();
                    let read = *counter.lock().unwrap();
                    tokio::task::yield_now().await;
                    *counter.lock().unwrap() = read + 1;
                    lease.release().await.unwrap();
                }
            })));
        }
        for (_client, task) in tasks {
            task.await.unwrap();
        }
        assert_eq!(*counter.lock().unwrap(), 1_600);
    }
}

async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

fn client_of_last_task<T>(tasks: &[(Client, T)]) -> Client {
    tasks.last().expect("a task before").0.clone()
}
