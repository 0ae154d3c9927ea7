//! `list` with many keys. With `STEADLOCK_LONG=1` there are ten times as many, and the test also checks how long each
//! call took.

use std::collections::BTreeSet;

use steadlock::Client;
use steadlock::admin::Servers;

use crate::support::{Node, Rig, json, listed};

/// Commands that would read a whole value, which `list` must never send.
const WHOLE: [&str; 6] = ["keys", "hgetall", "hkeys", "hvals", "smembers", "hscan"];

fn is_long() -> bool {
    std::env::var_os("STEADLOCK_LONG").is_some()
}

#[tokio::test]
async fn locks_are_found_among_ten_times_as_many_keys_that_look_like_them() {
    let locks: usize = if is_long() { 10_000 } else { 1_000 };
    let rig = Rig::start("cluster");
    let mut keys: Vec<Vec<String>> = Vec::new();
    for number in 0..locks {
        let owner = format!(
            "1b7a31c4-8a5e-4f0a-9c55-2f1d4f0a3b11:{}",
            4_611_686_018_427_387_904 + number
        );
        let name = name(number);
        keys.push(match number % 4 {
            0 => words(&["SET", &name, &owner]),
            1 => words(&[
                "ZADD",
                &format!("steadlock:{{{name}}}:semaphore"),
                "99999999999999",
                &format!("{owner}/1"),
            ]),
            _ => words(&["HSET", &name, &owner, "1"]),
        });
    }
    for number in 0..locks * 10 {
        let id = format!("{number:08x}-8a5e-4f0a-9c55-2f1d4f0a3b11");
        let key = format!("session:{number}");
        keys.push(match number % 5 {
            0 => words(&["HSET", &key, &id, "1"]),
            1 => words(&["HSET", &key, "user", &id, "since", "1"]),
            2 => words(&["SET", &key, &format!("{id}:x{number}")]),
            3 => words(&[
                "ZADD",
                &format!("steadlock:{{s{number}}}:rw-readers"),
                "5",
                &format!("{id}:{number}"),
            ]),
            _ => words(&["SET", &format!("steadlock:{{s{number}}}:token"), "1790000000000000"]),
        });
    }
    let fields: Vec<String> = (0..100_000)
        .flat_map(|field| [format!("f{field}"), "1".into()])
        .collect();
    keys.push([words(&["HSET", "session:large"]), fields].concat());
    keys.push(words(&["SET", "session:long", &"x".repeat(4_000_000)]));
    fill(&rig.url, &keys).await;

    let primaries: Vec<&Node> = rig.nodes.iter().filter(|node| node.is_primary()).collect();
    assert_eq!(primaries.len(), 3);
    let mut slow = Vec::new();
    for _ in 0..3 {
        for node in &primaries {
            node.run(&["CONFIG", "SET", "slowlog-log-slower-than", "5000"]);
            node.run(&["CONFIG", "RESETSTAT"]);
            node.run(&["SLOWLOG", "RESET"]);
        }
        let start = std::time::Instant::now();
        let listing = json(&rig.url, &["list"]);
        if is_long() {
            println!("{locks} locks among {} keys: {:?}", keys.len(), start.elapsed());
        }
        let found: BTreeSet<String> = listed(&listing).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, (0..locks).map(name).collect());
        let mut pages = 0;
        for node in &primaries {
            for command in WHOLE {
                assert_eq!(calls(node, command), 0, "{command}");
            }
            pages += calls(node, "scan");
        }
        assert!(pages >= keys.len() / 1_000, "{pages} pages of some 500 keys");
        slow = primaries
            .iter()
            .map(|node| slow_calls(node))
            .filter(|calls| calls != "[]")
            .collect();
        // On a shared machine a server may get no processor for a while, so one slow measurement is repeated.
        if slow.is_empty() || !is_long() {
            break;
        }
    }
    assert!(
        slow.is_empty() || !is_long(),
        "calls that took 5 ms or more, three times: {slow:?}"
    );
}

fn name(number: usize) -> String {
    format!("order:{number}")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Sends each command to the node that serves its key.
async fn fill(url: &str, commands: &[Vec<String>]) {
    let mut servers = Servers::open(Client::builder().url(url)).await.unwrap();
    let cluster = &mut servers.deployments_mut()[0];
    let mut of_node = std::collections::BTreeMap::<String, Vec<&Vec<String>>>::new();
    for command in commands {
        let address = cluster.primary_of(&command[1]).unwrap().address().to_owned();
        of_node.entry(address).or_default().push(command);
    }
    for server in cluster.primaries_mut() {
        for some in of_node[server.address()].chunks(1_000) {
            for answer in server.ask_all(some).await.unwrap() {
                answer.unwrap();
            }
        }
    }
}

/// Returns how often a command ran since the counts were reset.
fn calls(node: &Node, command: &str) -> usize {
    let prefix = format!("cmdstat_{command}:calls=");
    let stats = node.text(&["INFO", "commandstats"]);
    let count = stats
        .lines()
        .find_map(|line| line.strip_prefix(&prefix)?.split(',').next());
    count.map_or(0, |count| count.parse().unwrap())
}

fn slow_calls(node: &Node) -> String {
    let steadlock_protocol::Reply::Array(entries) = node.run(&["SLOWLOG", "GET", "10"]) else {
        panic!("no list")
    };
    let shown: Vec<String> = entries
        .iter()
        .filter_map(|entry| match entry {
            steadlock_protocol::Reply::Array(parts) => Some(format!("{:?} µs: {:?}", parts[2], parts[3])),
            _ => None,
        })
        .collect();
    format!("{shown:?}")
}
