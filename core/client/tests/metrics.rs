//! Tests of a client's metrics.

mod support;

use std::time::{Duration, Instant};

use steadlock::{Client, ErrorKind, blocking};
use support::{Redis, Server};

/// Returns the sum of a metric over all lines whose labels have all of these words.
fn number(text: &str, metric: &str, labels: &[&str]) -> f64 {
    let is_wanted = |line: &&str| {
        line.split_once('{').is_some_and(|(name, _)| name == metric) && labels.iter().all(|label| line.contains(label))
    };
    let lines: Vec<&str> = text.lines().filter(is_wanted).collect();
    lines
        .iter()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().expect("a number"))
        .sum()
}

/// Waits until a metric is at least `least`.
async fn reaches(client: &Client, metric: &str, labels: &[&str], least: f64) {
    let start = Instant::now();
    loop {
        let text = client.metrics().unwrap();
        if number(&text, metric, labels) >= least {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{metric} {labels:?}\n{text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_client_without_metrics_says_how_to_enable_them() {
    let client = Client::connect("memory://").await.unwrap();
    let error = client.metrics().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("option `metrics`"), "{error}");
}

#[tokio::test]
async fn runs_of_jobs_are_counted_by_how_they_ended() {
    let server = Server::memory();
    let connect = async || Client::builder().url(server.url()).metrics().connect().await.unwrap();
    let (one, two) = (connect().await, connect().await);
    let job = |client: &Client| client.once("nightly").at_least(Duration::from_secs(60));
    let failing = job(&one);
    let ran = failing.try_run(async |_| {
        job(&two).run(async |_| ()).await.unwrap();
        Err::<(), _>("failed")
    });
    ran.await.unwrap();
    job(&one).run(async |_| ()).await.unwrap();
    job(&two).run(async |_| ()).await.unwrap();
    let (first, second) = (one.metrics().unwrap(), two.metrics().unwrap());
    let runs = |outcome: &str| number(&first, "steadlock_runs_total", &["group=\"nightly\"", outcome]);
    assert_eq!(
        (runs("\"succeeded\""), runs("\"failed\""), runs("\"lost\"")),
        (1.0, 1.0, 0.0)
    );
    let skips = |outcome: &str| number(&second, "steadlock_acquisitions_total", &["kind=\"once\"", outcome]);
    assert_eq!(
        (skips("\"running\""), skips("\"done\""), skips("\"timed_out\"")),
        (1.0, 1.0, 0.0)
    );
    assert_eq!(number(&first, "steadlock_hold_seconds_count", &["kind=\"once\""]), 2.0);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    for text in [&first, &second] {
        let success = number(text, "steadlock_job_last_success_time_seconds", &["group=\"nightly\""]);
        assert!((now - 60.0..=now + 1.0).contains(&success), "{success} at {now}");
    }
    assert!(!first.contains("steadlock_runs_total{kind=\"lock\""));
}

#[tokio::test]
async fn each_acquisition_is_counted_by_how_it_ended() {
    let server = Server::memory();
    let client = Client::builder()
        .url(server.url())
        .key_prefix("shop:")
        .metrics()
        .connect()
        .await
        .unwrap();
    let lock = client.lock("stock:42");
    let lease = lock.acquire().await.unwrap();
    let held = client.metrics().unwrap();
    assert_eq!(
        number(&held, "steadlock_held", &["kind=\"lock\"", "group=\"stock\""]),
        1.0
    );
    // One caller times out, and another one is cancelled.
    let timed_out = lock.clone().wait(Duration::from_millis(250)).acquire().await;
    assert_eq!(timed_out.unwrap_err().kind(), ErrorKind::LockTimeout);
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.map(drop) }
    });
    reaches(&client, "steadlock_waiting", &["group=\"stock\""], 1.0).await;
    waiter.abort();
    reaches(&client, "steadlock_acquisitions_total", &["outcome=\"cancelled\""], 1.0).await;
    lease.release().await.unwrap();
    let both = client.multi_lock([&client.lock("a:1"), &client.lock("b:2")]);
    both.acquire().await.unwrap().release().await.unwrap();

    let text = client.metrics().unwrap();
    let stock = ["kind=\"lock\"", "group=\"stock\""];
    for (outcome, count) in [
        ("granted", 1.0),
        ("timed_out", 1.0),
        ("cancelled", 1.0),
        ("unavailable", 0.0),
    ] {
        let outcome = format!("outcome=\"{outcome}\"");
        let labels = [&stock[..], &[&outcome]].concat();
        assert_eq!(
            number(&text, "steadlock_acquisitions_total", &labels),
            count,
            "{outcome}"
        );
    }
    assert_eq!(number(&text, "steadlock_wait_seconds_count", &stock), 3.0);
    assert!(number(&text, "steadlock_wait_seconds_sum", &stock) >= 0.25);
    assert_eq!(number(&text, "steadlock_hold_seconds_count", &stock), 1.0);
    assert!(number(&text, "steadlock_hold_seconds_sum", &stock) >= 0.25);
    let multi = ["kind=\"multi_lock\"", "group=\"a\""];
    assert_eq!(number(&text, "steadlock_hold_seconds_count", &multi), 1.0);
    for gauge in ["steadlock_held", "steadlock_waiting"] {
        assert_eq!(number(&text, gauge, &[]), 0.0, "{gauge}\n{text}");
    }
    assert!(!text.contains("stock:") && !text.contains("shop"), "no names:\n{text}");
    client.close().await;
}

#[tokio::test]
async fn losses_renewals_and_reconnects_are_counted() {
    let mut redis = Redis::start();
    let client = Client::builder()
        .url(redis.url())
        .lease(Duration::from_secs(6))
        .metrics()
        .connect()
        .await
        .unwrap();
    let lease = client.lock("stock:1").acquire().await.unwrap();
    reaches(
        &client,
        "steadlock_renewals_total",
        &["group=\"stock\"", "outcome=\"renewed\""],
        1.0,
    )
    .await;
    // The server starts again without its data, like a promoted replica that had not received them.
    redis.stop();
    redis.start_again();
    lease.lost().await;
    let removed = ["kind=\"lock\"", "group=\"stock\"", "reason=\"removed\""];
    reaches(&client, "steadlock_losses_total", &removed, 1.0).await;
    for link in ["link=\"calls\"", "link=\"renewals\""] {
        reaches(&client, "steadlock_reconnects_total", &[link], 1.0).await;
        assert!(number(&client.metrics().unwrap(), "steadlock_connections_lost_total", &[link]) >= 1.0);
    }
    // The server stays away for longer than this lease.
    let short = client.lock("stock:2").lease(Duration::from_millis(1_500)).renewed();
    let lease = short.acquire().await.unwrap();
    redis.stop();
    lease.lost().await;
    reaches(&client, "steadlock_losses_total", &["reason=\"expired\""], 1.0).await;
    let refused = client.lock("stock:3").wait(Duration::from_millis(50)).acquire().await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);

    let text = client.metrics().unwrap();
    let of = |metric, label| number(&text, metric, &["group=\"stock\"", label]);
    assert_eq!(of("steadlock_losses_total", "reason=\"expired\""), 1.0);
    assert_eq!(of("steadlock_acquisitions_total", "outcome=\"unavailable\""), 1.0);
    assert!(of("steadlock_renewals_total", "outcome=\"failed\"") >= 1.0);
    assert!(number(&text, "steadlock_connect_failures_total", &[]) >= 1.0);
    assert_eq!(number(&text, "steadlock_hold_seconds_count", &[]), 2.0);
    assert_eq!(number(&text, "steadlock_held", &[]), 0.0);
    client.close().await;
}

#[tokio::test]
async fn a_closed_client_holds_nothing_and_keeps_its_counters() {
    let server = Server::memory();
    let client = Client::builder().url(server.url()).metrics().connect().await.unwrap();
    let lease = client.lock("stock:1").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = client.lock("stock:1");
        async move { lock.acquire().await.map(drop) }
    });
    reaches(&client, "steadlock_waiting", &[], 1.0).await;
    client.close().await;
    assert_eq!(waiter.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    let text = client.metrics().unwrap();
    assert_eq!(number(&text, "steadlock_losses_total", &["reason=\"closed\""]), 1.0);
    assert_eq!(
        number(&text, "steadlock_acquisitions_total", &["outcome=\"closed\""]),
        1.0
    );
    for gauge in ["steadlock_held", "steadlock_waiting"] {
        assert_eq!(number(&text, gauge, &[]), 0.0, "{gauge}\n{text}");
    }
    drop(lease);
}

#[test]
fn a_hundred_thousand_names_stay_within_the_groups() {
    let client = blocking::Client::builder()
        .url("memory://")
        .metrics()
        .metrics_group(|name| name.to_owned())
        .metrics_groups(7)
        .connect_blocking()
        .unwrap();
    for name in 0..100_000 {
        let lease = client.lock(format!("customer-{name}")).acquire().unwrap();
        lease.release().unwrap();
    }
    let text = client.metrics().unwrap();
    let groups = text.lines().filter(|line| line.starts_with("steadlock_held{")).count();
    assert_eq!(groups, 8, "{text}");
    let granted = ["outcome=\"granted\"", "group=\"other\""];
    assert_eq!(number(&text, "steadlock_acquisitions_total", &granted), 100_000.0 - 7.0);
    assert!(text.len() < 100_000, "{} bytes", text.len());
    client.close();
}

#[tokio::test]
async fn every_kind_has_its_own_numbers_and_no_lock_stays_counted_as_held() {
    let server = Server::memory();
    let client = Client::builder().url(server.url()).metrics().connect().await.unwrap();
    let rooms = client.read_write_lock("room:1");
    let locks = [
        client.lock("stock:1"),
        client.mutex("stock:2"),
        client.fair_lock("stock:3"),
        rooms.read.clone(),
        rooms.write.clone(),
    ];
    for lock in &locks {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let semaphore = client.semaphore("pool:1", 3);
    semaphore.acquire(1).await.unwrap().release().await.unwrap();
    // A re-entry counts as another hold.
    let outer = client.lock("stock:1").acquire().await.unwrap();
    let inner = client.lock("stock:1").within(&outer).acquire().await.unwrap();
    let held = client.metrics().unwrap();
    assert_eq!(
        number(&held, "steadlock_held", &["kind=\"lock\"", "group=\"stock\""]),
        2.0
    );
    inner.release().await.unwrap();
    outer.release().await.unwrap();

    let text = client.metrics().unwrap();
    for (kind, group, count) in [
        ("lock", "stock", 3.0),
        ("mutex", "stock", 1.0),
        ("fair_lock", "stock", 1.0),
        ("read_lock", "room", 1.0),
        ("write_lock", "room", 1.0),
        ("semaphore", "pool", 1.0),
    ] {
        let labels = [&*format!("kind=\"{kind}\""), &*format!("group=\"{group}\"")];
        assert_eq!(
            number(&text, "steadlock_hold_seconds_count", &labels),
            count,
            "{kind}\n{text}"
        );
    }
    assert_eq!(number(&text, "steadlock_held", &[]), 0.0);
    client.close().await;
}

#[tokio::test]
async fn a_redlock_counts_as_one_lock_however_many_servers_it_has() {
    let servers = [Server::memory(), Server::memory(), Server::memory()];
    let client = Client::builder()
        .primaries(servers.iter().map(Server::url))
        .lease(Duration::from_secs(3))
        .metrics()
        .connect()
        .await
        .unwrap();
    let lock = ["kind=\"lock\"", "group=\"stock\""];
    let lease = client.lock("stock:1").acquire().await.unwrap();
    reaches(
        &client,
        "steadlock_renewals_total",
        &["outcome=\"renewed\"", "group=\"stock\""],
        3.0,
    )
    .await;
    let held = client.metrics().unwrap();
    assert_eq!(number(&held, "steadlock_held", &lock), 1.0, "{held}");
    lease.release().await.unwrap();
    let lost = client.lock("stock:2").acquire().await.unwrap();
    for server in &servers {
        server.run(&["FLUSHALL"]);
    }
    lost.lost().await;
    // The metric changes only after the holder has learnt of the loss.
    reaches(&client, "steadlock_losses_total", &lock, 1.0).await;
    let text = client.metrics().unwrap();
    assert_eq!(number(&text, "steadlock_losses_total", &lock), 1.0, "{text}");
    assert_eq!(number(&text, "steadlock_held", &[]), 0.0, "{text}");
    assert_eq!(number(&text, "steadlock_hold_seconds_count", &lock), 2.0);
    client.close().await;
}

#[tokio::test]
async fn only_the_chosen_queues_are_counted_on_the_server() {
    let server = Redis::start();
    let others = Client::builder().url(server.url()).key_prefix("shop:");
    let others = others.connect().await.unwrap();
    let mut waiters = Vec::new();
    let mut held = Vec::new();
    for (name, waiting) in [("hot", 3), ("cold", 1)] {
        held.push(others.fair_lock(name).acquire().await.unwrap());
        for place in 1..=waiting {
            let lock = others.fair_lock(name);
            waiters.push(tokio::spawn(async move { lock.acquire().await }));
            let queue = format!("steadlock:{{shop:{name}}}:fair");
            support::eventually("the waiter waits", Duration::from_secs(5), || {
                server.run(&["ZCARD", &queue]) == steadlock_protocol::Reply::Int(place)
            })
            .await;
        }
    }
    let client = Client::builder().url(server.url()).key_prefix("shop:");
    let client = client
        .metrics()
        .metrics_queues(["hot", "idle"])
        .connect()
        .await
        .unwrap();
    reaches(&client, "steadlock_fair_queue", &["queue=\"hot\""], 3.0).await;
    let text = client.metrics().unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("steadlock_fair_queue"))
        .collect();
    assert_eq!(
        lines,
        [
            "steadlock_fair_queue{queue=\"hot\"} 3",
            "steadlock_fair_queue{queue=\"idle\"} 0"
        ]
    );
    client.close().await;
    others.close().await;
    for waiter in waiters {
        drop(waiter.await);
    }
}

#[tokio::test]
async fn queues_that_cannot_be_counted_are_refused() {
    let many: Vec<String> = (0..101).map(|number| number.to_string()).collect();
    for builder in [
        Client::builder().url("memory://").metrics_queues(["a"]),
        Client::builder().url("memory://").metrics().metrics_queues([""]),
        Client::builder().url("memory://").metrics().metrics_queues(many),
        Client::builder()
            .primaries(["redis://a", "redis://b", "redis://c"])
            .metrics()
            .metrics_queues(["a"]),
    ] {
        let error = builder.connect().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}
