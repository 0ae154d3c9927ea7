//! Tests with sentinels that reply one after the other and contradict each other: the first reply has no priority.

use std::time::{Duration, Instant};

use steadlock::{Client, ErrorKind, ReleaseOutcome};

use super::support::fake_sentinel::FakeSentinel;
use super::support::proxy::Proxy;
use super::support::{Redis, eventually, on_time, unused_port};
use super::{SERVICE, SOON, SentinelRig, connect, has, take, url};

/// The delay of the distant sentinels, which know more than the near one.
const FAR: Duration = Duration::from_millis(120);
/// The time limit of a round, half of the connect timeout. A later reply does not count.
const BOUND: Duration = Duration::from_millis(2_500);
/// A connect timeout whose rounds have a limit far above [`SHORT_ROUND`].
const LONG: Duration = Duration::from_secs(20);
/// The longest time of steps with a round that does not wait until its limit.
const SHORT_ROUND: Duration = Duration::from_millis(1_250);

fn scripts_called(server: &Redis) -> u64 {
    server.calls("evalsha") + server.calls("eval")
}

/// Checks that this server grants a lock to the client.
async fn grants(server: &Redis, client: &Client, name: &str) {
    let lease = take(client, name).await;
    assert!(has(server, name), "{name} is granted elsewhere");
    assert_eq!(lease.release().await.unwrap(), ReleaseOutcome::Released);
}

/// Checks that several new clients use one server and never the other.
async fn are_all_at(server: &Redis, other: &Redis, sentinels: &[&FakeSentinel]) {
    for number in 0..8 {
        let client = connect(sentinels).await;
        grants(server, &client, &format!("first-{number}.")).await;
    }
    assert_eq!(scripts_called(other), 0, "the deposed primary was used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_near_sentinel_that_knows_less_than_two_far_ones_is_not_believed() {
    let (old, new) = (Redis::start(), Redis::start());
    let stale = FakeSentinel::naming(old.port, 4);
    for delay in [FAR, Duration::from_millis(400)] {
        let far = [(); 2].map(|()| FakeSentinel::delayed(delay, new.port, 5));
        are_all_at(&new, &old, &[&stale, &far[0], &far[1]]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_one_configuration_the_majority_decides_though_it_is_far_away() {
    let (old, new) = (Redis::start(), Redis::start());
    let stale = FakeSentinel::naming(old.port, 0);
    let far = [(); 2].map(|()| FakeSentinel::delayed(FAR, new.port, 0));
    are_all_at(&new, &old, &[&stale, &far[0], &far[1]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_that_the_only_sentinel_of_the_url_names_are_asked_before_it_is_believed() {
    let (old, new) = (Redis::start(), Redis::start());
    let stale = FakeSentinel::naming(old.port, 4);
    let far = [(); 2].map(|()| FakeSentinel::delayed(FAR, new.port, 5));
    stale.set_others(&[&far[0], &far[1]]);
    are_all_at(&new, &old, &[&stale]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_with_two_addresses_is_one() {
    let (old, new) = (Redis::start(), Redis::start());
    let stale = FakeSentinel::naming(old.port, 4);
    let by_another_address = Proxy::to(stale.port);
    let far = FakeSentinel::delayed(FAR, new.port, 5);
    let url = SentinelRig::url_of(&[stale.port, by_another_address.port, far.port], SERVICE);
    for number in 0..4 {
        let client = Client::connect(&url).await.unwrap();
        grants(&new, &client, &format!("two-{number}.")).await;
    }
    assert_eq!(scripts_called(&old), 0);
}

/// Checks that a client uses the new primary after it lost the connections to the old one. The connections to the
/// sentinels are lost too if `are_sentinels_lost`.
async fn after_a_loss(are_sentinels_lost: bool) {
    let (old, new) = (Redis::start(), Redis::start());
    let to_old = Proxy::to(old.port);
    let near = FakeSentinel::naming(to_old.port, 4);
    let far = [(); 2].map(|()| FakeSentinel::delayed(FAR, to_old.port, 4));
    for number in 0..6 {
        let client = connect(&[&near, &far[0], &far[1]]).await;
        grants(&old, &client, &format!("before-{number}.")).await;
        let all_listen = || [&near, &far[0], &far[1]].iter().all(|one| one.listeners() > 0);
        eventually("all sentinels are listened to", SOON, all_listen).await;
        // The distant sentinels do not publish the switch, as if the message were lost.
        far.iter().for_each(|one| one.name(new.port, 5));
        let before = scripts_called(&old);
        if are_sentinels_lost {
            [&near, &far[0], &far[1]].iter().for_each(|one| one.cut());
        }
        to_old.cut_all();
        grants(&new, &client, &format!("after-{number}.")).await;
        assert_eq!(scripts_called(&old), before, "the deposed primary was used");
        drop(client);
        far.iter().for_each(|one| one.name(to_old.port, 4));
        [&near, &far[0], &far[1]].iter().for_each(|one| one.cut());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_lost_connection_the_near_sentinel_is_not_believed_either() {
    after_a_loss(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_is_it_when_the_connections_to_all_sentinels_were_lost_too() {
    after_a_loss(true).await;
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
        let options = Client::builder().url(url).connect_timeout(LONG);
        let start = Instant::now();
        let client = options.connect().await.unwrap();
        grants(&primary, &client, &format!("first-{third}.")).await;
        proxy.cut_all();
        grants(&primary, &client, &format!("again-{third}.")).await;
        assert!(start.elapsed() < on_time(SHORT_ROUND), "{:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_is_down_does_not_make_a_near_one_right() {
    let (old, new) = (Redis::start(), Redis::start());
    let stale = FakeSentinel::naming(old.port, 4);
    let far = FakeSentinel::delayed(FAR, new.port, 5);
    let url = SentinelRig::url_of(&[stale.port, unused_port(), far.port], SERVICE);
    let client = Client::connect(url).await.unwrap();
    grants(&new, &client, "down").await;
    assert_eq!(scripts_called(&old), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_word_of_one_is_taken_when_the_others_had_their_time() {
    let primary = Redis::start();
    let proxy = Proxy::to(primary.port);
    let near = FakeSentinel::naming(proxy.port, 1);
    let silent = [(); 2].map(|()| FakeSentinel::naming(proxy.port, 1));
    silent.iter().for_each(|one| one.set_silent(true));
    near.set_others(&[&silent[0], &silent[1]]);
    let options = Client::builder().url(url(&[&near]));
    let start = Instant::now();
    let client = options.connect_timeout(Duration::from_secs(4)).connect().await.unwrap();
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(1_990) && took < Duration::from_secs(4),
        "{took:?}"
    );
    grants(&primary, &client, "one").await;
    // A sentinel that refuses connections does not delay the round, even if another one still names it.
    drop(silent);
    let options = Client::builder().url(url(&[&near])).connect_timeout(LONG);
    let start = Instant::now();
    let client = options.connect().await.unwrap();
    assert!(start.elapsed() < on_time(SHORT_ROUND), "{:?}", start.elapsed());
    grants(&primary, &client, "two").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_configuration_is_compared_with_what_the_others_say_before_it_is_followed() {
    let [old, newer, newest] = [(); 3].map(|()| Redis::start());
    let near = FakeSentinel::naming(old.port, 4);
    // The time limit of a round is a quarter of a second while a primary is in use.
    let far = FakeSentinel::delayed(Duration::from_millis(40), old.port, 4);
    let options = Client::builder().url(url(&[&near, &far])).connect_timeout(LONG);
    let client = options.connect().await.unwrap();
    grants(&old, &client, "old").await;
    let both_listen = || near.listeners() > 0 && far.listeners() > 0;
    eventually("both are listened to", SOON, both_listen).await;
    far.name(newest.port, 6);
    near.switch(newer.port, 5);
    super::is_at(&client, &newest, "newest").await;
    assert_eq!(scripts_called(&newer), 0);
    // A silent sentinel delays the change by a quarter of a second.
    far.set_silent(true);
    let start = Instant::now();
    near.switch(newer.port, 7);
    super::is_at(&client, &newer, "newer").await;
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
    grants(&new, &client, "new").await;
    for other in others {
        let port = other.port;
        other.cut();
        drop(other);
        eventually("it is down", SOON, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
        })
        .await;
    }
    to_new.refuse();
    to_new.cut_all();
    let lock = client.lock("lost").wait(2 * BOUND);
    let error = lock.acquire().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(scripts_called(&old), 0);
    to_new.lead_to(new.port);
    grants(&new, &client, "again").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_one_configuration_one_sentinel_does_not_lead_away_from_a_primary_that_works() {
    let (old, new) = (Redis::start(), Redis::start());
    let near = FakeSentinel::naming(new.port, 0);
    // The replies of these two take longer than a round waits while a primary is in use.
    let far = [(); 2].map(|()| FakeSentinel::delayed(Duration::from_millis(600), new.port, 0));
    let client = connect(&[&near, &far[0], &far[1]]).await;
    grants(&new, &client, "before").await;
    let all_listen = || [&near, &far[0], &far[1]].iter().all(|one| one.listeners() > 0);
    eventually("all sentinels are listened to", SOON, all_listen).await;
    let asked = far.each_ref().map(FakeSentinel::asked);
    // As if this sentinel had been restarted with an old configuration file.
    near.switch(old.port, 0);
    let is_round_over = || far.iter().zip(asked).all(|(one, before)| one.asked() > before);
    eventually("the others are asked", SOON, is_round_over).await;
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        grants(&new, &client, "after").await;
    }
    assert_eq!(scripts_called(&old), 0, "the deposed primary was used");
}
