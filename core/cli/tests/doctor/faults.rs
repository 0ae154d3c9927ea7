//! One server with one wrong setting at a time.

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use steadlock_protocol::Reply;

use crate::faulty_proxy::{Fault, FaultyProxy};
use crate::report::Report;
use crate::support::version::Version;
use crate::support::{Redis, eventually, unused_port};

fn start(settings: &[&str]) -> Redis {
    Redis::start_with(settings, None)
}

fn report_of(settings: &[&str]) -> Report {
    let server = start(settings);
    Report::of(&[&server.url()], &[])
}

#[test]
fn each_wrong_setting_is_named() {
    for (settings, id, word) in [
        (
            &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"][..],
            "eviction",
            "allkeys-lru",
        ),
        (
            &["--maxmemory-policy", "volatile-lru"],
            "eviction-policy",
            "volatile-lru",
        ),
        (&[], "no-memory-limit", "maxmemory"),
        (&[], "no-persistence", "appendonly"),
        (&[], "one-server", "sentinels"),
        (&[], "no-password", "requirepass"),
        (&["--save", "3600 1"], "snapshots-only", "snapshots"),
        (&["--appendonly", "yes"], "last-second", "everysec"),
        (&["--timeout", "5"], "idle-timeout", "5 s"),
        (
            &["--client-output-buffer-limit", "pubsub 4096 0 0"],
            "pubsub-buffer",
            "4096",
        ),
        (&["--lua-time-limit", "100"], "script-limit", "100 ms"),
        (&["--min-replicas-to-write", "1"], "writes-refused", "NOREPLICAS"),
        (&["--maxmemory", "1"], "writes-refused", "OOM"),
        (&["--maxmemory", "1"], "memory-nearly-full", "maxmemory"),
        (
            &["--bind", "0.0.0.0", "--protected-mode", "no"],
            "open-to-all",
            "requirepass",
        ),
    ] {
        report_of(settings).has(id, word);
    }
}

#[test]
fn correct_settings_are_not_reported() {
    let report = report_of(&["--bind", "0.0.0.0", "--protected-mode", "yes"]);
    report.lacks("open-to-all");
    report.has("no-password", "default user");
    let report = report_of(&["--appendonly", "yes", "--maxmemory", "100mb"]);
    for id in [
        "no-persistence",
        "no-memory-limit",
        "eviction",
        "eviction-policy",
        "idle-timeout",
    ] {
        report.lacks(id);
    }
    assert_eq!(report.tier(), "T0");
}

#[test]
fn an_old_version_is_named_with_its_advisory() {
    let server = Redis::start_version(Version::Redis62, &[], None);
    let report = Report::of(&[&server.url()], &[]);
    report.has("advisory", "CVE-2025-49844");
    report.has("advisory", "6.2.20");
}

#[test]
fn a_replica_that_is_not_linked_is_reported() {
    let server = start(&["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "600"]);
    let port = server.port.to_string();
    let _replica = start(&["--replicaof", &format!("127.0.0.1 {port}")]);
    let info = || match server.run(&["INFO", "replication"]) {
        Reply::Bytes(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    };
    block_on(eventually("the replica asks for a copy", LONG, || {
        info().contains("state=wait_bgsave")
    }));
    let report = Report::of(&[&server.url()], &[]);
    report.has("replica-not-linked", "127.0.0.1");
    report.has("min-replicas", "min-replicas-to-write");
    assert_eq!(report.tier(), "T1");
}

#[test]
fn a_replica_is_reported_as_unfit_for_locks() {
    let server = start(&["--repl-diskless-sync-delay", "0"]);
    let replica = start(&["--replicaof", &format!("127.0.0.1 {}", server.port)]);
    let report = Report::of(&[&replica.url()], &[]);
    report.has("writes-refused", "READONLY");
    assert_eq!(report.tier(), "none");
}

/// The primary sends the time at which a record ends, and a promoted replica compares that with its own clock.
#[cfg(target_os = "linux")]
#[test]
fn a_replica_whose_clock_is_off_is_named() {
    use crate::support::clock_offset::ClockOffset;

    let password = Some("sesame");
    let server = Redis::start_version(Version::System, &["--repl-diskless-sync-delay", "0"], password);
    let of_primary = format!("127.0.0.1 {}", server.port);
    let settings = [
        "--replicaof",
        &of_primary,
        "--masterauth",
        "sesame",
        "--requirepass",
        "sesame",
    ];
    let info = || match server.run_on_kept_connection(&["INFO", "replication"]) {
        Reply::Bytes(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    };
    for (offset, lease, expected) in [
        (0, "30", None),
        (2_000, "30", Some("ahead of its primary's")),
        (400, "30", Some("ahead of its primary's")),
        // The margin of a lease of 60 s, about a hundredth of it, is larger than 400 ms.
        (400, "60", None),
        (-400, "30", None),
        (-3_000, "30", Some("behind its primary's")),
    ] {
        let replica = Redis::start_with_clock(ClockOffset(offset), &settings);
        let line = format!("port={},state=online", replica.port);
        block_on(eventually("the replica is linked", LONG, || info().contains(&line)));
        let report = Report::of(&[&server.url()], &["--lease", lease]);
        match expected {
            Some(expected) => report.has("replica-clock", expected),
            None => report.lacks("replica-clock"),
        }
        drop(replica);
        block_on(eventually("the replica is gone", LONG, || {
            info().contains("connected_slaves:0")
        }));
    }
}

#[test]
fn a_paused_replica_is_behind() {
    let server = start(&["--repl-diskless-sync-delay", "0"]);
    let replica = start(&["--replicaof", &format!("127.0.0.1 {}", server.port)]);
    let line = || match server.run(&["INFO", "replication"]) {
        Reply::Bytes(text) => {
            let text = String::from_utf8(text).unwrap();
            text.lines()
                .find(|line| line.starts_with("slave0:"))
                .unwrap_or("")
                .to_owned()
        }
        other => panic!("{other:?}"),
    };
    block_on(eventually("the replica is there", LONG, || {
        line().contains("state=online")
    }));
    Report::of(&[&server.url()], &[]).lacks("replica-behind");
    replica.pause();
    let lag = || line().rsplit_once("lag=").and_then(|(_, lag)| lag.parse().ok());
    block_on(eventually("the replica is behind", LONG, || {
        lag().is_some_and(|lag: u64| lag > 6)
    }));
    Report::of(&[&server.url()], &[]).has("replica-behind", "s ago");
    replica.resume();
}

#[test]
fn a_snapshot_that_failed_is_named() {
    let server = start(&[]);
    // The snapshot fails, because its file cannot replace a folder.
    let folder = server.socket().with_file_name("dump.rdb");
    std::fs::create_dir(folder).unwrap();
    server.run(&["BGSAVE"]);
    let has_failed = || match server.run(&["INFO", "persistence"]) {
        Reply::Bytes(text) => String::from_utf8_lossy(&text).contains("rdb_last_bgsave_status:err"),
        other => panic!("{other:?}"),
    };
    block_on(eventually("the snapshot fails", LONG, has_failed));
    Report::of(&[&server.url()], &[]).has("persistence-failing", "last snapshot failed");
}

#[test]
fn the_development_server_is_named_as_one() {
    let mut served = Command::new(env!("CARGO_BIN_EXE_steadlock"))
        .args(["serve", "--port", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(served.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let report = Report::of(&[line.split_whitespace().last().unwrap()], &[]);
    served.kill().unwrap();
    served.wait().unwrap();
    assert_eq!(
        report.warnings_and_errors(),
        ["development-server"],
        "{:#}",
        report.json
    );
    report.lacks("cannot-tell");
    assert_eq!(report.tier(), "T0");
}

#[test]
fn a_server_that_is_nearly_out_of_connections_is_named() {
    let server = start(&["--maxclients", "10"]);
    let _others: Vec<_> = (0..8).map(|_| server.connection()).collect();
    Report::of(&[&server.url()], &[]).has("connections-nearly-full", "of 10");
}

#[test]
fn a_round_trip_that_is_long_for_the_lease_is_named() {
    let server = start(&[]);
    let slow = FaultyProxy::start(server.port, Fault::Delay(Duration::from_millis(20)));
    Report::of(&[&slow.url()], &["--lease", "0.1"]).has("round-trip-too-long", "lease of 0.1 s");
    let slow_once = FaultyProxy::start(server.port, Fault::DelayOnce(Duration::from_millis(600)));
    let report = Report::of(&[&slow_once.url()], &["--lease", "10"]);
    report.has("round-trip-slow", "twentieth");
    Report::of(&[&server.url()], &["--lease", "600"]).lacks("round-trip-slow");
}

#[test]
fn a_clock_that_is_off_is_named() {
    let server = start(&[]);
    for (seconds, word) in [(7, "s ahead of"), (-7, "s behind that of")] {
        let proxy = FaultyProxy::start(server.port, Fault::Ahead(seconds));
        Report::of(&[&proxy.url()], &[]).has("clock-off", word);
    }
    Report::of(&[&server.url()], &[]).lacks("clock-off");
}

#[test]
fn a_connection_that_leaves_the_machine_without_tls_is_named() {
    let Some(address) = own_address() else {
        // Without a network there is no connection that leaves the machine. A unit test covers this finding, too.
        return;
    };
    let server = start(&["--bind", "0.0.0.0", "--protected-mode", "no"]);
    let report = Report::of(&[&format!("redis://{address}:{}", server.port)], &[]);
    report.has("plaintext", "rediss://");
    report.has("open-to-all", "default user");
    Report::of(&[&server.url()], &[]).lacks("plaintext");
}

/// Returns this machine's address in its network. No packet is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn an_unreachable_server_ends_the_command_with_a_status() {
    let nobody = format!("redis://127.0.0.1:{}", unused_port());
    for (arguments, expected) in [
        (&["--url", &nobody][..], 69),
        (&[], 78),
        (&["--url", "nonsense"], 78),
        (&["--url", "memory://"], 78),
        (&["--url", &nobody, "--key-prefix", "a*"], 78),
        (&["--url", &nobody, "--lease", "soon"], 2),
        (&["--url", &nobody, "--lease", "0"], 2),
    ] {
        let output = crate::report::doctor(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?} says nothing");
    }
}

const LONG: Duration = Duration::from_secs(30);

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future);
}
