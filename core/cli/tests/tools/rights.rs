//! The rights for tools in SECURITY.md: a watcher's rule with the row of the table is enough, and each right of the row
//! is needed.

use steadlock::Client;

use crate::support::{Node, Rig, errors, run, status, text};

const PASSWORD: &str = "sesame";
/// The rights of the row, and the commands that need each of them.
const RIGHTS: [(&str, &[&[&str]]); 4] = [
    ("+hlen", &[INSPECT, LIST, TOP, WAIT]),
    ("+strlen", &[INSPECT, LIST, TOP, WAIT]),
    ("+type", &[LIST, TOP]),
    ("+scan", &[LIST, TOP, JOBS]),
];
const INSPECT: &[&str] = &["inspect", "orders:1"];
const JOBS: &[&str] = &["jobs"];
const LIST: &[&str] = &["list"];
const TOP: &[&str] = &["top", "--once"];
const WAIT: &[&str] = &["wait", "orders:1", "--kind", "semaphore"];

/// Creates a user with the rule that `acl` prints, except for one right, and returns the user's URL.
fn user(node: &Node, role: &[&str], name: &str, without: Option<&str>) -> String {
    let output = run("", &[&["acl"], role, &["--prefix", "orders:", "--user", name]].concat());
    let line = String::from_utf8(output.stdout).unwrap().replace("PASSWORD", PASSWORD);
    let words: Vec<&str> = line.split_whitespace().filter(|word| Some(*word) != without).collect();
    assert_eq!(node.text(&words), "OK");
    format!("redis://{name}:{PASSWORD}@127.0.0.1:{}", node.port)
}

#[tokio::test]
async fn a_watcher_with_the_rights_of_the_tools_can_use_them_and_needs_each() {
    let server = Rig::start("standalone");
    let node = &server.nodes[0];
    let client = Client::connect(&*server.url).await.unwrap();
    let leases = [
        client.lock("orders:1").acquire().await.unwrap(),
        client.mutex("orders:2").acquire().await.unwrap(),
        client.read_write_lock("orders:3").read.acquire().await.unwrap(),
        client.read_write_lock("orders:4").write.acquire().await.unwrap(),
        client.semaphore("orders:5", 2).acquire(1).await.unwrap(),
    ];
    // The record of this run is gone, and its history is left.
    assert!(client.once("orders:6").run(async |_| ()).await.is_ok());
    // The watcher may not read this key.
    node.run(&["SET", "other", "x"]);
    let url = user(node, &["watcher", "--tools"], "enough", None);
    for command in [INSPECT, LIST, TOP, WAIT, JOBS] {
        let output = run(&url, command);
        assert_eq!(status(&output), 0, "{command:?}: {}", errors(&output));
    }
    let output = run(&url, LIST);
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 6, "{output:?}");
    assert!(errors(&output).contains("1 keys may be locks"), "{output:?}");
    let output = run(&url, &["list", "orders:"]);
    assert_eq!(errors(&output), "", "a key with another prefix needs no right");
    assert!(text(&run(&url, JOBS)).contains("orders:6  ended"));
    for (number, (right, commands)) in RIGHTS.into_iter().enumerate() {
        let name = format!("without-{number}");
        let url = user(node, &["watcher", "--tools"], &name, Some(right));
        for command in commands {
            let output = run(&url, command);
            assert_eq!(status(&output), 78, "{command:?} without {right}: {output:?}");
            let printed = errors(&output);
            assert!(
                printed.contains("NOPERM") && printed.contains("SECURITY.md"),
                "{printed}"
            );
            assert!(!printed.contains(&name) && !printed.contains(PASSWORD), "{printed}");
        }
    }
    for lease in leases {
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn an_operator_can_force_any_release_without_more_rights() {
    let server = Rig::start("standalone");
    let url = user(&server.nodes[0], &["operator"], "chief", None);
    let client = Client::connect(&*server.url).await.unwrap();
    let locks = [
        client.lock("orders:1"),
        client.mutex("orders:2"),
        client.fair_lock("orders:3"),
        client.read_write_lock("orders:4").read,
        client.read_write_lock("orders:5").write,
        client.semaphore("orders:6", 2).permits(1),
        client.once("orders:7").as_lock(),
        client.leader("orders:8").as_lock(),
    ];
    for lock in locks {
        let lease = lock.acquire().await.unwrap();
        let output = run(&url, &["release", "--force", lock.name()]);
        assert_eq!(status(&output), 0, "{}: {output:?}", lock.name());
        drop(lease);
    }
}

#[test]
fn programs_can_run_jobs_and_lead_without_more_rights() {
    let server = Rig::start("standalone");
    for role in ["application", "tenant"] {
        let url = user(&server.nodes[0], &[role], role, None);
        let (job, led) = (format!("orders:{role}{{x}}"), format!("orders:{role}"));
        let options = [
            "--at-least",
            "2s",
            "--key",
            "1",
            "--lease",
            "1",
            "--skipped-status",
            "9",
        ];
        let start = |command: &[&str]| run(&url, &[&["run", &job], &options[..], &["--"], command].concat());
        for (command, expected) in [
            (&["false"][..], 1),
            // The lease of 1 s is renewed meanwhile.
            (&["sleep", "1.2"], 0),
            (&["true"], 9),
        ] {
            let output = start(command);
            assert_eq!(status(&output), expected, "{role} {command:?}: {output:?}");
        }
        let output = run(&url, &["jobs", &job]);
        assert_eq!(status(&output), 0, "{role}: {output:?}");
        assert!(text(&output).contains("ended  "), "{role}: {output:?}");
        let output = run(&url, &["lead", &led, "--", "true"]);
        assert_eq!(status(&output), 0, "{role}: {output:?}");
    }
}
