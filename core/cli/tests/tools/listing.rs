//! `list` tells locks from keys that only look like locks.

use std::time::Duration;

use serde_json::Value;
use steadlock::{Client, Started};

use crate::support::{Rig, Served, command, json, listed, lock, run, status, text};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn every_kind_is_listed_on_every_sort_of_server() {
    let (served, single, sentinel, cluster) = (
        Served::start(),
        Rig::start("standalone"),
        Rig::start("sentinel"),
        Rig::start("cluster"),
    );
    for url in [&served.url, &single.url, &sentinel.url, &cluster.url] {
        let empty = run(url, &["list"]);
        assert_eq!((status(&empty), text(&empty)), (0, "no lock is held\n".into()), "{url}");
        let client = Client::connect(url.as_str()).await.unwrap();
        let permits = client
            .semaphore("permits", 4)
            .permits(3)
            .lease(LONG)
            .acquire()
            .await
            .unwrap();
        let reading = client.read_write_lock("read");
        let leases = [
            client.lock("lock").lease(LONG).acquire().await.unwrap(),
            client.lock("with{a}tag").lease(LONG).acquire().await.unwrap(),
            client.mutex("mutex").lease(LONG).acquire().await.unwrap(),
            client.fair_lock("fair").lease(LONG).acquire().await.unwrap(),
            reading.read.clone().lease(LONG).acquire().await.unwrap(),
            reading.read.clone().lease(LONG).acquire().await.unwrap(),
            client
                .read_write_lock("write{b}")
                .write
                .lease(LONG)
                .acquire()
                .await
                .unwrap(),
            client.once("once{c}").as_lock().lease(LONG).acquire().await.unwrap(),
            client.leader("leader").as_lock().lease(LONG).acquire().await.unwrap(),
        ];
        let waiter = {
            let fair = client.fair_lock("fair");
            tokio::spawn(async move { fair.acquire().await })
        };
        crate::support::eventually("a waiter", || lock(&json(url, &["list"]), "fair")["waiters"] == 1).await;
        let listing = json(url, &["list"]);
        let expected = [
            ("fair", "fair_lock"),
            ("leader", "leader"),
            ("lock", "lock"),
            ("mutex", "mutex"),
            ("once{c}", "once"),
            ("permits", "semaphore"),
            ("read", "read_lock"),
            ("with{a}tag", "lock"),
            ("write{b}", "write_lock"),
        ];
        assert_eq!(
            listed(&listing),
            expected.map(|(name, kind)| (name.into(), kind.into())),
            "{url}"
        );
        assert_eq!(lock(&listing, "read")["holders"], 2);
        assert_eq!(
            (
                &lock(&listing, "permits")["holders"],
                &lock(&listing, "permits")["limit"]
            ),
            (&3.into(), &4.into())
        );
        let one = lock(&listing, "lock");
        assert!((20_000..=60_000).contains(&one["left_ms"].as_u64().unwrap()), "{one}");
        assert!(one["held_ms"].as_u64().unwrap() < 30_000, "{one}");
        assert_eq!(
            one["token"],
            leases[0].token().unwrap().to_string().parse::<u64>().unwrap()
        );
        let owner = client.lock("lock").holder().await.unwrap().unwrap().owner;
        assert_eq!(one["holder"]["owner"], owner);
        let printed = text(&run(url, &["list"]));
        assert!(printed.starts_with("NAME") && printed.contains(&owner), "{printed}");
        assert_eq!(printed.lines().count(), 10, "{printed}");
        assert_eq!(listed(&json(url, &["list", "w"])).len(), 2);
        assert_eq!(listed(&json(url, &["list", "*"])).len(), 0, "a prefix is no pattern");
        waiter.abort();
        permits.release().await.unwrap();
        for lease in leases {
            lease.release().await.unwrap();
        }
        client.close().await;
    }
}

#[tokio::test]
async fn the_jobs_of_every_sort_of_server_are_shown_with_their_last_runs() {
    let (served, single, sentinel, cluster) = (
        Served::start(),
        Rig::start("standalone"),
        Rig::start("sentinel"),
        Rig::start("cluster"),
    );
    for url in [&served.url, &single.url, &sentinel.url, &cluster.url] {
        let client = Client::builder().url(url.as_str()).key_prefix("a:");
        let client = client.connect().await.unwrap();
        for name in ["good", "with{tag}", "kept"] {
            let job = client.once(name).at_least(LONG);
            assert!(job.run(async |_| ()).await.is_ok(), "{name}");
        }
        let bad = client.once("bad").start().await.unwrap();
        let Started::Run(bad) = bad else { panic!("{bad:?}") };
        bad.fail().await.unwrap();
        let running = client.once("now").start().await.unwrap();

        let shown = json(url, &["jobs", "--key-prefix", "a:"]);
        let states: Vec<_> = shown["jobs"].as_array().unwrap().iter().map(in_short).collect();
        let expected = [
            "bad ended failed without success",
            "good ended succeeded with success",
            "kept ended succeeded with success",
            "now running - without success",
            "with{tag} ended succeeded with success",
        ];
        assert_eq!(states, expected, "{url}");
        let names = json(url, &["jobs", "a:now", "a:never"]);
        let states: Vec<_> = names["jobs"].as_array().unwrap().iter().map(in_short).collect();
        assert_eq!(
            states,
            ["a:now running - without success", "a:never - - without success"]
        );
        let one = &shown["jobs"][1];
        assert_eq!(one["client"]["pid"], std::process::id(), "{one}");
        assert_eq!(one["ended"]["client"], one["client"], "{one}");
        let moment = |moment: &Value| moment.as_u64().unwrap();
        let took = moment(&one["ended"]["took_ms"]);
        assert_eq!(
            moment(&one["started_ms"]) + took,
            moment(&one["ended"]["at_ms"]),
            "{one}"
        );
        assert_eq!(one["succeeded_ms"], one["ended"]["at_ms"], "{one}");
        drop(running);
        client.close().await;
    }
}

/// Returns the name, the state, the last outcome and whether there was a success.
fn in_short(job: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let success = if job["succeeded_ms"].is_u64() {
        "with"
    } else {
        "without"
    };
    let outcome = text(&job["ended"]["outcome"]);
    format!(
        "{} {} {outcome} {success} success",
        text(&job["name"]),
        text(&job["state"])
    )
}

#[test]
fn the_state_of_a_job_follows_from_its_run_and_its_history() {
    let server = Rig::start("standalone");
    let node = &server.nodes[0];
    for command in [
        "HSET steadlock:{a-running}:job owner o2 started 5 client x ended_owner o1 ended 4 took 1 outcome lost",
        "HSET steadlock:{a-running}:once owner o2 since 5 client x",
        "HSET steadlock:{b-crashed}:job owner o2 started 5 client x ended_owner o1 ended 4 took 1 outcome succeeded succeeded 4",
        "HSET steadlock:{c-of-another}:job owner o2 started 5 client x",
        "HSET steadlock:{c-of-another}:once owner o3 since 5 client x",
        "HSET steadlock:{d-done}:job owner o2 started 5 client x ended_owner o2 ended 6 took 1 outcome succeeded succeeded 6",
        "HSET steadlock:{d-done}:once owner o2 since 5 took 1 client x",
        "HSET steadlock:{e-unused}:job ended_owner o2 ended 6 took 1 outcome failed ended_client x",
        "HSET steadlock:{f-other-data}:job name value",
        "SET steadlock:{g-text}:job value",
    ] {
        node.run(&command.split(' ').collect::<Vec<_>>());
    }
    let shown = json(&server.url, &["jobs"]);
    let states: Vec<_> = shown["jobs"].as_array().unwrap().iter().map(in_short).collect();
    let expected = [
        "a-running running lost without success",
        "b-crashed crashed succeeded with success",
        "c-of-another crashed - without success",
        "d-done ended succeeded with success",
        "e-unused ended failed without success",
        "f-other-data - - without success",
        "g-text - - without success",
    ];
    assert_eq!(states, expected);
}

#[tokio::test]
async fn the_nodes_of_a_cluster_are_reached_by_tls_and_their_authority() {
    let rig = Rig::start("tls-cluster");
    let authority = rig.authority.as_ref().unwrap().to_str().unwrap();
    let client = Client::builder()
        .url(&*rig.url)
        .tls_ca_file(authority)
        .connect()
        .await
        .unwrap();
    let mut leases = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        leases.push(client.lock(name).acquire().await.unwrap());
    }
    let listing = json(&rig.url, &["list", "--tls-ca-file", authority]);
    assert_eq!(listed(&listing).len(), 6, "{listing}");
    assert_eq!(listing["servers"].as_array().unwrap().len(), 3);
    assert_eq!(
        status(&run(&rig.url, &["inspect", "a"])),
        78,
        "the authority is not known"
    );
    drop(leases);
}

#[tokio::test]
async fn a_tenant_sees_its_own_locks_by_their_names() {
    let server = Served::start();
    let client = |prefix: &str| Client::builder().url(&*server.url).key_prefix(prefix).connect();
    let (one, other) = (client("one:").await.unwrap(), client("other:").await.unwrap());
    let mine = [
        one.lock("a").acquire().await.unwrap(),
        one.semaphore("b", 1).acquire(1).await.unwrap(),
    ];
    let theirs = other.lock("a").acquire().await.unwrap();
    let names = |arguments: &[&str]| -> Vec<String> {
        listed(&json(&server.url, arguments))
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    assert_eq!(names(&["list", "--key-prefix", "one:"]), ["a", "b"]);
    assert_eq!(names(&["list", "a", "--key-prefix", "one:"]), ["a"]);
    assert_eq!(names(&["list"]), ["one:a", "one:b", "other:a"]);
    for lease in mine.into_iter().chain([theirs]) {
        lease.release().await.unwrap();
    }
}

#[test]
fn keys_that_only_look_like_locks_are_not_listed() {
    let server = Rig::start("standalone");
    let node = &server.nodes[0];
    let ours = "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:4611686018427387904";
    let redisson = "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:53";
    let soon = "99999999999999";
    for command in [
        // Records of locks.
        &["HSET", "lock", ours, "1"][..],
        &["HSET", "redisson", redisson, "1"],
        &["SET", "mutex", ours],
        &["HSET", "steadlock:{w}:rw", "writer", ours, "writer_until", soon],
        &["ZADD", "steadlock:{r}:rw-readers", soon, ours],
        &[
            "ZADD",
            "steadlock:{s}:semaphore",
            soon,
            &format!("{ours}/1"),
            "3",
            "limit",
        ],
        // Other keys.
        &["HSET", "two", ours, "1", redisson, "1"],
        &["HSET", "object", "name", "x"],
        &["HSET", "uuid-alone", "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11", "1"],
        &["SET", "text", "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:0x7"],
        &["SET", "thread", redisson],
        &["SET", "number", "12345678901234567890123456789012345678901234567890"],
        &["RPUSH", "list", ours],
        &["SADD", "set", ours],
        &["ZADD", "scores", soon, ours],
        &["XADD", "stream", "*", "owner", ours],
        &["SET", "steadlock:{t}:token", ours],
        &["HSET", "steadlock:{f}:alive", ours, "1"],
        &["ZADD", "steadlock:{f}:fair", soon, ours],
        &["SET", "steadlock:{w2}:rw", ours],
        &["HSET", "steadlock:{w3}:rw", "writer", ours, "writer_until", "5"],
        &["HSET", "steadlock:{w4}:rw", "writer", ours, "writer_until", "soon"],
        &["ZADD", "steadlock:{r2}:rw-readers", "5", ours],
        &["ZADD", "steadlock:{s2}:semaphore", "3", "limit"],
        &["ZADD", "steadlock:x:semaphore", soon, ours],
        &["HSET", "steadlock:lock", ours, "1"],
        &["HSET", "a{b", ours, "1"],
        &["SET", "steadlock:{w5}:nothing", ours],
    ] {
        node.run(command);
    }
    let listing = json(&server.url, &["list"]);
    let expected = [
        ("lock", "lock"),
        ("mutex", "mutex"),
        ("r", "read_lock"),
        ("redisson", "lock"),
        ("s", "semaphore"),
        ("w", "write_lock"),
    ];
    assert_eq!(
        listed(&listing),
        expected.map(|(name, kind)| (name.into(), kind.into()))
    );
    assert_eq!(lock(&listing, "redisson")["holder"]["library"], "redisson");
    assert_eq!(lock(&listing, "lock")["left_ms"], Value::Null, "the record has no TTL");
}

#[test]
fn names_are_escaped_for_the_terminal_and_passwords_in_them_are_hidden() {
    let server = Rig::start("standalone");
    let ours = "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:4611686018427387904";
    server.nodes[0].run(&["HSET", "\u{1b}[2J", ours, "1"]);
    server.nodes[0].run(&["HSET", "redis://user:hunter2@host", ours, "1"]);
    let output = run(&server.url, &["list"]);
    assert!(
        !text(&output).contains('\u{1b}') && text(&output).contains("\\u{1b}[2J"),
        "{output:?}"
    );
    let both = text(&output) + &json(&server.url, &["list"]).to_string();
    assert!(both.contains("redis://…@host") && !both.contains("hunter2"), "{both}");
}

#[test]
fn a_closed_pipe_ends_the_command_without_an_error() {
    let server = Served::start();
    for arguments in [&["list"][..], &["top", "--interval", "0.1"]] {
        let mut child = command(&[&server.url], arguments)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (status(&output), output.stderr.len()),
            (0, 0),
            "{arguments:?}: {output:?}"
        );
    }
}
