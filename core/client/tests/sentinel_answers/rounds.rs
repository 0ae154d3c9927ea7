//! Tests with sentinels that reply one after the other and contradict each other: the first reply has no priority.

use std::time::{Duration, Instant};

use steadlock::{Client, ErrorKind, ReleaseOutcome};

use super::support::fake_sentinel::FakeSentinel;
use super::support::proxy::Proxy;
use super::support::{Redis, eventually, on_time, unused_port};
use super::{SERVICE, SOON, SentinelRig, acquire, connect, has_key, url};

/// The delay of the slow sentinels, which know more than the fast one.
const DELAY: Duration = Duration::from_millis(120);
/// The time limit of a round, in which a client asks every sentinel: half of the connect timeout. A later reply does
/// not count.
const ROUND_LIMIT: Duration = Duration::from_millis(2_500);
/// A connect timeout whose rounds have a limit far above [`SHORT_ROUND`].
const LONG_CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest time of a test's steps if no round in them waits until its limit.
const SHORT_ROUND: Duration = Duration::from_millis(1_250);

/// Checks that this server grants a lock to the client.
async fn check_granted_by(server: &Redis, client: &Client, name: &str) {
    let lease = acquire(client, name).await;
    assert!(has_key(server, name), "{name} is granted elsewhere");
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
}

/// Checks that several new clients use one server and never the other.
async fn check_all_use(server: &Redis, other: &Redis, sentinels: &[&FakeSentinel]) {
    for number in 0..8 {
        let client = connect(sentinels).await;
        check_granted_by(server, &client, &format!("first-{number}.")).await;
    }
    assert_eq!(other.scripts_called(), 0, "the deposed primary was used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fast_sentinel_with_an_older_answer_than_two_slow_ones_is_not_followed() {
    let (old, new) = (Redis::start(), Redis::start());
    let stale = FakeSentinel::naming(old.port, 4);
    for delay in [DELAY, Duration::from_millis(400)] {
        let slow = [(); 2].map(|()| FakeSentinel::delayed(delay, new.port, 5));
        check_all_use(&new, &old, &[&stale, &slow[0], &slow[1]]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_majority_decides_between_answers_of_one_epoch_although_it_is_slow() {
    let (old, new) = (Redis::start(), Redis::start());
    let stale = FakeSentinel::naming(old.port, 0);
    let slow = [(); 2].map(|()| FakeSentinel::delayed(DELAY, new.port, 0));
    check_all_use(&new, &old, &[&stale, &slow[0], &slow[1]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sentinels_that_the_only_one_in_the_url_names_are_asked_before_its_answer_is_followed() {
    let (old, new) = (Redis::start(), Redis::start());
    let stale = FakeSentinel::naming(old.port, 4);
    let slow = [(); 2].map(|()| FakeSentinel::delayed(DELAY, new.port, 5));
    stale.set_others(&[&slow[0], &slow[1]]);
    check_all_use(&new, &old, &[&stale]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_with_two_addresses_is_one() {
    let (old, new) = (Redis::start(), Redis::start());
    let stale = FakeSentinel::naming(old.port, 4);
    let by_another_address = Proxy::to(stale.port);
    let slow = FakeSentinel::delayed(DELAY, new.port, 5);
    let url = SentinelRig::url_of(&[stale.port, by_another_address.port, slow.port], SERVICE);
    for number in 0..4 {
        let client = Client::connect(&url).await.unwrap();
        check_granted_by(&new, &client, &format!("two-{number}.")).await;
    }
    assert_eq!(old.scripts_called(), 0);
}

/// Checks that a client uses the new primary after it lost the connections to the old one. The connections to the
/// sentinels are lost too if `are_sentinels_lost`.
async fn check_after_loss(are_sentinels_lost: bool) {
    let (old, new) = (Redis::start(), Redis::start());
    let to_old = Proxy::to(old.port);
    let fast = FakeSentinel::naming(to_old.port, 4);
    let slow = [(); 2].map(|()| FakeSentinel::delayed(DELAY, to_old.port, 4));
    for number in 0..6 {
        let client = connect(&[&fast, &slow[0], &slow[1]]).await;
        check_granted_by(&old, &client, &format!("before-{number}.")).await;
        let all_have_subscribers = || [&fast, &slow[0], &slow[1]].iter().all(|one| one.listeners() > 0);
        eventually("the client subscribes at all sentinels", SOON, all_have_subscribers).await;
        // The slow sentinels do not publish the switch, as if the message were lost.
        slow.iter().for_each(|one| one.name(new.port, 5));
        let before = old.scripts_called();
        if are_sentinels_lost {
            [&fast, &slow[0], &slow[1]].iter().for_each(|one| one.cut());
        }
        to_old.cut_all();
        check_granted_by(&new, &client, &format!("after-{number}.")).await;
        assert_eq!(old.scripts_called(), before, "the deposed primary was used");
        drop(client);
        slow.iter().for_each(|one| one.name(to_old.port, 4));
        [&fast, &slow[0], &slow[1]].iter().for_each(|one| one.cut());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fast_sentinel_is_not_followed_after_a_lost_connection_either() {
    check_after_loss(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fast_sentinel_is_not_followed_after_all_sentinel_connections_were_lost_either() {
    check_after_loss(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_agrees_does_not_wait_for_a_sentinel_that_is_down_or_silent() {
    let primary = Redis::start();
    let proxy = Proxy::to(primary.port);
    let up = [(); 2].map(|()| FakeSentinel::naming(proxy.port, 1));
    let silent = FakeSentinel::naming(proxy.port, 1);
    silent.set_silent(true);
    for third in [silent.port, unused_port()] {
        let url = SentinelRig::url_of(&[third, up[0].port, up[1].port], SERVICE);
        let options = Client::builder().url(url).connect_timeout(LONG_CONNECT_TIMEOUT);
        let start = Instant::now();
        let client = options.connect().await.unwrap();
        check_granted_by(&primary, &client, &format!("first-{third}.")).await;
        proxy.cut_all();
        check_granted_by(&primary, &client, &format!("again-{third}.")).await;
        assert!(start.elapsed() < on_time(SHORT_ROUND), "{:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_is_down_does_not_make_a_fast_one_the_majority() {
    let (old, new) = (Redis::start(), Redis::start());
    let stale = FakeSentinel::naming(old.port, 4);
    let slow = FakeSentinel::delayed(DELAY, new.port, 5);
    let url = SentinelRig::url_of(&[stale.port, unused_port(), slow.port], SERVICE);
    let client = Client::connect(url).await.unwrap();
    check_granted_by(&new, &client, "down").await;
    assert_eq!(old.scripts_called(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_of_one_sentinel_is_followed_when_the_time_of_the_others_is_over() {
    let primary = Redis::start();
    let proxy = Proxy::to(primary.port);
    let fast = FakeSentinel::naming(proxy.port, 1);
    let silent = [(); 2].map(|()| FakeSentinel::naming(proxy.port, 1));
    silent.iter().for_each(|one| one.set_silent(true));
    fast.set_others(&[&silent[0], &silent[1]]);
    let options = Client::builder().url(url(&[&fast]));
    let start = Instant::now();
    let client = options.connect_timeout(Duration::from_secs(4)).connect().await.unwrap();
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(1_990) && took < Duration::from_secs(4),
        "{took:?}"
    );
    check_granted_by(&primary, &client, "one").await;
    // A sentinel that refuses connections does not delay the round, even if another one still names it.
    drop(silent);
    let options = Client::builder()
        .url(url(&[&fast]))
        .connect_timeout(LONG_CONNECT_TIMEOUT);
    let start = Instant::now();
    let client = options.connect().await.unwrap();
    assert!(start.elapsed() < on_time(SHORT_ROUND), "{:?}", start.elapsed());
    check_granted_by(&primary, &client, "two").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_configuration_is_compared_with_the_other_answers_before_it_is_followed() {
    let [old, newer, newest] = [(); 3].map(|()| Redis::start());
    let fast = FakeSentinel::naming(old.port, 4);
    // The time limit of a round is a quarter of a second while a primary is in use.
    let slow = FakeSentinel::delayed(Duration::from_millis(40), old.port, 4);
    let options = Client::builder()
        .url(url(&[&fast, &slow]))
        .connect_timeout(LONG_CONNECT_TIMEOUT);
    let client = options.connect().await.unwrap();
    check_granted_by(&old, &client, "old").await;
    let both_have_subscribers = || fast.listeners() > 0 && slow.listeners() > 0;
    eventually("the client subscribes at both", SOON, both_have_subscribers).await;
    slow.name(newest.port, 6);
    fast.switch(newer.port, 5);
    super::wait_until_used(&client, &newest, "newest").await;
    assert_eq!(newer.scripts_called(), 0);
    // A silent sentinel delays the change by a quarter of a second.
    slow.set_silent(true);
    let start = Instant::now();
    fast.switch(newer.port, 7);
    super::wait_until_used(&client, &newer, "newer").await;
    assert!(
        start.elapsed() < on_time(Duration::from_secs(1)),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_sentinel_that_is_cut_off_does_not_lead_back_to_an_older_primary() {
    let (old, new) = (Redis::start(), Redis::start());
    let to_new = Proxy::to(new.port);
    let stale = FakeSentinel::naming(old.port, 4);
    let others = [(); 2].map(|()| FakeSentinel::naming(to_new.port, 5));
    stale.set_others(&[&others[0], &others[1]]);
    let client = connect(&[&stale]).await;
    check_granted_by(&new, &client, "new").await;
    for other in others {
        let port = other.port;
        other.cut();
        drop(other);
        eventually("the sentinel is down", SOON, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
        })
        .await;
    }
    to_new.refuse();
    to_new.cut_all();
    let lock = client.lock("lost").wait(2 * ROUND_LIMIT);
    let error = lock.acquire().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(old.scripts_called(), 0);
    to_new.lead_to(new.port);
    check_granted_by(&new, &client, "again").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_sentinel_does_not_lead_away_from_a_working_primary_within_one_epoch() {
    let (old, new) = (Redis::start(), Redis::start());
    let fast = FakeSentinel::naming(new.port, 0);
    // The replies of these two take longer than a round waits while a primary is in use.
    let slow = [(); 2].map(|()| FakeSentinel::delayed(Duration::from_millis(600), new.port, 0));
    let client = connect(&[&fast, &slow[0], &slow[1]]).await;
    check_granted_by(&new, &client, "before").await;
    let all_have_subscribers = || [&fast, &slow[0], &slow[1]].iter().all(|one| one.listeners() > 0);
    eventually("the client subscribes at all sentinels", SOON, all_have_subscribers).await;
    let calls = slow.each_ref().map(FakeSentinel::calls);
    // As if this sentinel had been restarted with an old configuration file.
    fast.switch(old.port, 0);
    let is_round_over = || slow.iter().zip(calls).all(|(one, before)| one.calls() > before);
    eventually("the others are called", SOON, is_round_over).await;
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        check_granted_by(&new, &client, "after").await;
    }
    assert_eq!(old.scripts_called(), 0, "the deposed primary was used");
}
