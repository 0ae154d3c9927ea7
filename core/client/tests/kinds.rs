//! Tests of every kind of lock on the embedded store and on a real redis-server.

mod support;

use std::time::{Duration, Instant};

use steadlock::{Client, Error, ErrorKind, Lease, Lock, LostReason, ReleaseOutcome};
use steadlock_protocol::Reply;
use support::{Server, eventually, on_time};
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(5);

/// Runs a scenario on each kind of server, with two clients of that server.
async fn on_every_server<F: AsyncFn(&Server, Client, Client)>(scenario: F) {
    for server in [Server::memory(), Server::redis()] {
        let url = server.url();
        let (one, two) = (
            Client::connect(&url).await.unwrap(),
            Client::connect(&url).await.unwrap(),
        );
        scenario(&server, one.clone(), two.clone()).await;
        one.close().await;
        two.close().await;
    }
}

/// Waits for a lock in a background task. Returns once the server has the subscription to its release.
async fn spawn_waiter_at(server: &Server, lock: Lock) -> JoinHandle<Result<Lease, Error>> {
    let channels = || match server.run(&["PUBSUB", "CHANNELS"]) {
        Reply::Array(channels) => channels,
        other => panic!("{other:?}"),
    };
    let before = channels();
    let waiter = tokio::spawn(async move { lock.acquire().await });
    eventually("a waiter has subscribed", SOON, || {
        channels().iter().any(|channel| !before.contains(channel))
    })
    .await;
    waiter
}

fn kind(result: Result<impl Sized, Error>) -> ErrorKind {
    result.err().expect("an error").kind()
}

#[tokio::test]
async fn a_mutex_excludes_and_wakes() {
    on_every_server(async |server, one, two| {
        let held = one.mutex("m").acquire().await.unwrap();
        assert!(two.mutex("m").try_acquire().await.unwrap().is_none());
        let waiter = spawn_waiter_at(server, two.mutex("m").wait(SOON)).await;
        let start = Instant::now();
        assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);
        let next = waiter.await.unwrap().unwrap();
        assert!(
            start.elapsed() < on_time(Duration::from_millis(400)),
            "woken by the release"
        );
        next.release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn fair_waiters_are_served_in_order_of_arrival_across_clients() {
    on_every_server(async |_, one, two| {
        let held = one.fair_lock("f").acquire().await.unwrap();
        let (order, mut arrived) = tokio::sync::mpsc::unbounded_channel();
        let mut waiters = Vec::new();
        for number in 0..6 {
            let from = if number % 2 == 0 { &two } else { &one };
            let lock = from.fair_lock("f").wait(SOON);
            let order = order.clone();
            waiters.push(tokio::spawn(async move {
                let lease = lock.acquire().await.unwrap();
                order.send(number).unwrap();
                lease.release().await.unwrap();
            }));
            tokio::task::yield_now().await;
            // The server answers a client's calls in order, so the waiter is in its queue before this reply.
            assert!(from.fair_lock("f").is_locked().await.unwrap());
        }
        assert!(two.fair_lock("f").try_acquire().await.unwrap().is_none());
        let start = Instant::now();
        held.release().await.unwrap();
        for number in 0..6 {
            assert_eq!(arrived.recv().await, Some(number));
        }
        assert!(
            start.elapsed() < on_time(Duration::from_millis(400)),
            "each release wakes the next waiter: {:?}",
            start.elapsed()
        );
        for waiter in waiters {
            waiter.await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn fair_and_plain_locks_of_a_name_exclude_each_other() {
    on_every_server(async |server, one, two| {
        let plain = one.lock("fp").acquire().await.unwrap();
        let waiter = spawn_waiter_at(server, two.fair_lock("fp").wait(SOON)).await;
        let start = Instant::now();
        plain.release().await.unwrap();
        let fair = waiter.await.unwrap().unwrap();
        assert!(
            start.elapsed() < on_time(Duration::from_millis(400)),
            "{:?}",
            start.elapsed()
        );
        assert!(one.lock("fp").try_acquire().await.unwrap().is_none());
        fair.release().await.unwrap();
        one.lock("fp")
            .wait(SOON)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_fair_waiter_that_gives_up_leaves_the_queue() {
    on_every_server(async |server, one, two| {
        let held = one.fair_lock("fl").acquire().await.unwrap();
        let short = two.fair_lock("fl").wait(Duration::from_millis(400));
        assert_eq!(kind(short.acquire().await), ErrorKind::LockTimeout);
        let waiter = spawn_waiter_at(server, one.fair_lock("fl").wait(SOON)).await;
        let start = Instant::now();
        held.release().await.unwrap();
        waiter.await.unwrap().unwrap().release().await.unwrap();
        assert!(start.elapsed() < on_time(Duration::from_millis(400)));
    })
    .await;
}

#[tokio::test]
async fn readers_share_and_a_writer_excludes_everyone() {
    on_every_server(async |_, one, two| {
        let (a, b) = (one.read_write_lock("rw"), two.read_write_lock("rw"));
        let readers = [
            a.read.acquire().await.unwrap(),
            a.read.acquire().await.unwrap(),
            b.read.acquire().await.unwrap(),
        ];
        assert!(b.write.try_acquire().await.unwrap().is_none());
        let lock = b.write.clone().wait(SOON);
        let writer = tokio::spawn(async move { lock.acquire().await });
        tokio::task::yield_now().await;
        // The server answers a client's calls in order, so it knows of the writer before this reply.
        assert!(b.read.is_locked().await.unwrap());
        assert!(
            a.read.try_acquire().await.unwrap().is_none(),
            "a waiting writer keeps new readers out"
        );
        let start = Instant::now();
        for reader in readers {
            assert_eq!(reader.release().await.unwrap(), ReleaseOutcome::Released);
        }
        let writing = writer.await.unwrap().unwrap();
        assert!(start.elapsed() < on_time(Duration::from_millis(400)));
        assert!(writing.token().is_some());
        assert!(a.read.try_acquire().await.unwrap().is_none());
        writing.release().await.unwrap();
        a.read.wait(SOON).acquire().await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_writer_reads_inside_its_write_and_keeps_the_read() {
    on_every_server(async |server, one, two| {
        let (a, b) = (one.read_write_lock("rwd"), two.read_write_lock("rwd"));
        let writing = a.write.acquire().await.unwrap();
        let waiting = spawn_waiter_at(server, a.read.clone().wait(SOON)).await;
        let reading = a.read.within(&writing).acquire().await.unwrap();
        assert!(b.read.try_acquire().await.unwrap().is_none());
        let start = Instant::now();
        writing.release().await.unwrap();
        let second = waiting.await.unwrap().unwrap();
        assert!(
            start.elapsed() < on_time(Duration::from_millis(100)),
            "a downgrade wakes: {:?}",
            start.elapsed()
        );
        assert!(b.write.try_acquire().await.unwrap().is_none());
        assert!(reading.is_valid());
        assert_eq!(
            kind(a.write.within(&reading).acquire().await),
            ErrorKind::InvalidArgument,
            "an upgrade is refused"
        );
        reading.release().await.unwrap();
        second.release().await.unwrap();
        b.write.wait(SOON).acquire().await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_semaphore_grants_no_more_than_its_permits() {
    on_every_server(async |server, one, two| {
        let (a, b) = (one.semaphore("s", 3), two.semaphore("s", 3));
        let two_of_three = a.acquire(2).await.unwrap();
        assert_eq!(b.available().await.unwrap(), 1);
        assert!(b.try_acquire(2).await.unwrap().is_none());
        let last = b.acquire(1).await.unwrap();
        assert_eq!(
            kind(two.semaphore("s", 4).try_acquire(1).await),
            ErrorKind::Misconfigured
        );
        let waiter = spawn_waiter_at(server, a.clone().wait(SOON).permits(3)).await;
        two_of_three.release().await.unwrap();
        last.release().await.unwrap();
        let all = waiter.await.unwrap().unwrap();
        assert_eq!(b.available().await.unwrap(), 0);
        all.release().await.unwrap();
        assert_eq!(b.available().await.unwrap(), 3);
        assert_eq!(kind(a.acquire(0).await), ErrorKind::InvalidArgument);
        assert_eq!(kind(a.acquire(4).await), ErrorKind::InvalidArgument);
        two.semaphore("s", 4).acquire(4).await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_operator_changes_the_limit_of_a_semaphore_that_is_held() {
    on_every_server(async |server, one, two| {
        let old = one.semaphore("sl", 3).lease(Duration::from_secs(20));
        assert!(!two.set_limit("sl", 2).await.unwrap(), "no permit is held");
        let (two_permits, one_permit) = (old.acquire(2).await.unwrap(), old.acquire(1).await.unwrap());
        let waiter = spawn_waiter_at(server, old.clone().wait(SOON).permits(1)).await;
        let start = Instant::now();
        assert!(two.set_limit("sl", 2).await.unwrap());
        assert_eq!(kind(waiter.await.unwrap()), ErrorKind::Misconfigured);
        assert!(
            start.elapsed() < on_time(Duration::from_millis(400)),
            "woken by the change"
        );
        assert_eq!(kind(old.try_acquire(1).await), ErrorKind::Misconfigured);

        let new = two.semaphore("sl", 2);
        assert_eq!(new.available().await.unwrap(), 0);
        assert!(new.try_acquire(1).await.unwrap().is_none());
        two_permits.extend(Some(Duration::from_secs(40))).await.unwrap();
        assert_eq!(one_permit.release().await.unwrap(), ReleaseOutcome::Released);
        assert!(new.try_acquire(1).await.unwrap().is_none(), "two of two are held");
        assert!(two_permits.is_valid());

        assert!(one.set_limit("sl", 5).await.unwrap());
        let three = two.semaphore("sl", 5).acquire(3).await.unwrap();
        assert_eq!(two_permits.release().await.unwrap(), ReleaseOutcome::Released);
        three.release().await.unwrap();
        assert!(!one.set_limit("sl", 5).await.unwrap());
        for limit in [0, 1_000_001] {
            let refused = one.set_limit("sl", limit).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert_eq!(refused.operation().to_string(), "set_limit");
        }
    })
    .await;
}

#[tokio::test]
async fn the_watchdog_renews_permits_of_an_old_limit() {
    for server in [Server::memory(), Server::redis()] {
        let builder = Client::builder().url(server.url()).lease(Duration::from_secs(4));
        let client = builder.connect().await.unwrap();
        let held = client.semaphore("sw", 2).acquire(2).await.unwrap();
        assert!(client.set_limit("sw", 1).await.unwrap());
        let (mut before, mut renewals) = (held.remaining(), 0);
        while renewals < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(held.is_valid(), "{:?}", held.lost_reason());
            let now = held.remaining();
            // Only a renewal increases the remaining time.
            renewals += u32::from(now > before);
            before = now;
        }
        assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);
        client.close().await;
    }
}

#[tokio::test]
async fn all_members_of_a_multi_lock_are_held_or_none() {
    on_every_server(async |_, one, two| {
        let a = one.multi_lock([&one.lock("b"), &one.mutex("a"), &one.semaphore("c", 2).permits(2)]);
        let held = a.acquire().await.unwrap();
        assert!(held.is_valid());
        for lock in [two.lock("b"), two.mutex("a"), two.semaphore("c", 2).permits(1)] {
            assert!(lock.try_acquire().await.unwrap().is_none(), "{lock:?}");
        }
        held.extend(Some(Duration::from_secs(40))).await.unwrap();
        assert!(held.remaining() > Duration::from_secs(35));
        assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);

        let last = two.semaphore("c", 2).acquire(1).await.unwrap();
        assert!(a.try_acquire().await.unwrap().is_none());
        two.lock("b")
            .wait(SOON)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        two.mutex("a")
            .wait(SOON)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        last.release().await.unwrap();
        let twice = one.multi_lock([&one.lock("x"), &one.fair_lock("x")]);
        assert_eq!(kind(twice.acquire().await), ErrorKind::InvalidArgument);
        assert_eq!(kind(one.multi_lock([]).acquire().await), ErrorKind::InvalidArgument);
    })
    .await;
}

#[tokio::test]
async fn a_multi_lock_is_lost_with_any_of_its_members() {
    on_every_server(async |_, one, two| {
        let lock = one.multi_lock([&one.lock("la"), &one.lock("lb")]);
        let held = lock.lease(Duration::from_millis(600)).acquire().await.unwrap();
        let lost = held.lost();
        assert!(two.force_release(&two.lock("la")).await.unwrap());
        assert!(!two.force_release(&two.lock("la")).await.unwrap());
        let reason = tokio::time::timeout(SOON, lost).await.unwrap();
        assert!(
            matches!(reason, LostReason::Removed | LostReason::Expired),
            "{reason:?}"
        );
        assert!(!held.is_valid());
        held.release().await.unwrap();
        two.lock("lb")
            .wait(SOON)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_forced_release_grants_the_lock_to_the_next_waiter() {
    on_every_server(async |server, one, two| {
        for name in ["lock", "fair", "mutex", "write", "semaphore"] {
            let of = |client: &Client| match name {
                "lock" => client.lock("force"),
                "fair" => client.fair_lock("force-fair"),
                "mutex" => client.mutex("force-mutex"),
                "write" => client.read_write_lock("force").write,
                _ => client.semaphore("force", 1).permits(1),
            };
            let held = of(&one).acquire().await.unwrap();
            let waiter = spawn_waiter_at(server, of(&two).wait(SOON)).await;
            let start = Instant::now();
            assert!(two.force_release(&of(&two)).await.unwrap(), "{name}");
            let got = waiter.await.unwrap().unwrap();
            assert!(start.elapsed() < on_time(Duration::from_millis(400)), "{name}");
            let outcome = held.release().await.unwrap();
            assert!(
                matches!(outcome, ReleaseOutcome::Stolen | ReleaseOutcome::Expired),
                "{name}: {outcome:?}"
            );
            assert!(got.is_valid());
            assert_eq!(got.release().await.unwrap(), ReleaseOutcome::Released, "{name}");
        }
    })
    .await;
}
