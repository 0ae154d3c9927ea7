//! Runs the commands of docs/operations.md, and checks its numbers.

use std::process::Command;
use std::time::Duration;

use steadlock::Client;
use steadlock_protocol::Reply;

use crate::support::version::Version;
use crate::support::{Redis, eventually};

const OPERATIONS: &str = include_str!("../../../../docs/operations.md");

/// Returns the document's blocks of shell commands.
fn blocks() -> Vec<&'static str> {
    let after = OPERATIONS.split("```sh\n").skip(1);
    after.filter_map(|rest| Some(rest.split_once("```")?.0)).collect()
}

/// Returns the settings that the text recommends outside of the blocks.
fn settings() -> Vec<&'static str> {
    let codes = OPERATIONS.split('`').skip(1).step_by(2);
    codes.filter(|code| code.starts_with("CONFIG SET ")).collect()
}

/// Runs a script in which `steadlock` is the command of this build. Returns the script's output.
fn run(server: &Redis, folder: &std::path::Path, script: &str) -> String {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_steadlock"));
    let path = format!(
        "{}:{}",
        program.parent().expect("a folder").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("sh")
        .args(["-uc", script])
        .current_dir(folder)
        .env("PATH", path)
        .env("STEADLOCK_URL", server.url())
        .env("NODE", format!("127.0.0.1:{}", server.port))
        .output()
        .expect("sh");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    // The exit statuses of doctor. redis-cli ends with 0 even if the server reports an error.
    assert!(matches!(output.status.code(), Some(0..=2)), "{script}: {printed}");
    for bad in ["ERR ", "NOPERM", "not found", "usage"] {
        assert!(!printed.contains(bad), "{script}: {printed}");
    }
    printed
}

#[test]
fn servers_of_all_versions_accept_each_command() {
    for version in Version::ALL {
        let server = Redis::start_version(version, &[], None);
        let node = Redis::start_cluster(version, &[]);
        let folder = std::env::temp_dir().join(format!("steadlock-operations-{}-{version}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let blocks = blocks();
        assert!(blocks.len() >= 7, "{blocks:?}");
        for block in blocks {
            for line in block.lines().filter(|line| !line.is_empty()) {
                let server = if line.contains("$NODE") { &node } else { &server };
                let printed = run(server, &folder, line);
                if line.contains("CONFIG SET") {
                    assert_eq!(printed.trim(), "OK", "{version}: {line}");
                }
            }
        }
        let json = std::fs::read_to_string(folder.join("doctor.json")).unwrap();
        let printed: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(printed["layout"], "one server");
        assert!(printed["access"].as_str().unwrap().contains("~orders:*"), "{json}");
        let settings = settings();
        assert!(settings.len() >= 8, "{settings:?}");
        for setting in settings {
            let printed = run(&server, &folder, &format!("redis-cli -u \"$STEADLOCK_URL\" {setting}"));
            assert_eq!(printed.trim(), "OK", "{version}: {setting}");
        }
        let printed = run(&server, &folder, "redis-cli -u \"$STEADLOCK_URL\" SCRIPT KILL");
        assert!(printed.starts_with("NOTBUSY"), "{printed}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}

fn text(server: &Redis, section: &str) -> String {
    match server.run(&["INFO", section]) {
        Reply::Bytes(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn clients(server: &Redis) -> usize {
    match server.run(&["CLIENT", "LIST"]) {
        // One client is the connection that runs CLIENT LIST.
        Reply::Bytes(text) => {
            String::from_utf8_lossy(&text)
                .lines()
                .filter(|line| !line.is_empty())
                .count()
                - 1
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_client_has_three_connections_and_makes_two_calls_for_a_lock() {
    let server = Redis::start();
    let client = Client::connect(server.url()).await.unwrap();
    let lease = client.lock("orders:1").acquire().await.unwrap();
    let other = client.mutex("orders:1");
    let waiting = tokio::spawn(async move { other.wait(Duration::from_secs(20)).acquire().await });
    eventually("the waiter subscribes", Duration::from_secs(10), || {
        text(&server, "clients").contains("pubsub_clients:1") || clients(&server) == 3
    })
    .await;
    assert_eq!(clients(&server), 3);
    waiting.abort();
    lease.release().await.unwrap();
    let before = server.calls("evalsha");
    for _ in 0..50 {
        client
            .lock("orders:2")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    let made = server.calls("evalsha") - before;
    assert!((100..=102).contains(&made), "{made} calls for 50 locks");
    client.close().await;
}

#[tokio::test]
async fn a_held_lock_takes_no_more_memory_than_documented() {
    for version in Version::ALL {
        let server = Redis::start_version(version, &[], None);
        let client = Client::connect(server.url()).await.unwrap();
        let used = || {
            let text = text(&server, "memory");
            let line = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
            line.unwrap().trim().parse::<i64>().unwrap()
        };
        let before = used();
        let mut leases = Vec::new();
        for number in 0..2_000 {
            leases.push(client.lock(format!("orders:{number:09}")).acquire().await.unwrap());
        }
        let each = (used() - before) / 2_000;
        // The 100 bytes more are for the buffers of connections and for scripts, which this measurement includes.
        assert!(each < 500 + 100, "{version}: {each} bytes for a lock");
        client.close().await;
    }
}
