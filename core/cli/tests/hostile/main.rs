//! Hostile clients against a real `steadlock serve`.
//!
//! While they are active, a monitor pings, writes and reads on its own connections. Each of its commands must be
//! answered within a second, and the process must stay below 512 MB.

#![cfg(target_os = "linux")]

mod idle_clients;
mod support;

use std::io::Write as _;
use std::time::Instant;

use support::{Monitor, RawClient, Served};

/// A script of `scripts.txt`.
struct Hostile {
    what: &'static str,
    expected: &'static str,
    is_among_worst: bool,
    text: String,
}

fn scripts() -> Vec<Hostile> {
    let mut scripts: Vec<Hostile> = Vec::new();
    for block in include_str!("scripts.txt").split("\n\n").skip(1) {
        let (head, text) = block.trim().split_once('\n').expect("a sentence and a script");
        let head = head.strip_prefix("# ").expect("a sentence first");
        let (what, expected) = head.split_once(" => ").expect("what is expected");
        scripts.push(Hostile {
            what: what.trim_end_matches(" !"),
            expected,
            is_among_worst: what.ends_with(" !"),
            text: text.to_owned(),
        });
    }
    scripts
}

/// Returns whether the reply starts like one of the expected ones. Several are possible, because on a slow machine a
/// script can run out of time before it runs out of memory.
fn is_as_expected(reply: &str, expected: &str) -> bool {
    expected
        .split(" or ")
        .any(|expected| expected == "any" || reply.starts_with(expected))
}

#[test]
fn no_script_stops_the_server() {
    let served = Served::start(&[]);
    let monitor = Monitor::start(&served);
    let scripts = scripts();
    assert!(scripts.len() >= 100, "{} scripts", scripts.len());
    let (mut wrong, mut took) = (Vec::new(), Vec::new());
    for script in &scripts {
        let mut client = RawClient::connect(served.port);
        let asked = Instant::now();
        client.send(&["EVAL", &script.text, "0"]);
        let reply = client.reply();
        took.push((asked.elapsed(), script.what));
        match reply {
            Some(reply) if is_as_expected(&reply, script.expected) => {}
            reply => wrong.push(format!("{}: {reply:.200?}, not {}", script.what, script.expected)),
        }
        assert_eq!(
            client.call(&["PING"]).as_deref(),
            Some("+PONG"),
            "after: {}",
            script.what
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    took.sort_unstable();
    monitor.end(&format!(
        "{} scripts, the longest {:?}",
        scripts.len(),
        &took[took.len() - 3..]
    ));
}

#[test]
fn the_worst_scripts_from_sixteen_connections_starve_nobody() {
    const CONNECTIONS: usize = 16;
    let served = Served::start(&[]);
    let monitor = Monitor::start(&served);
    let worst: Vec<_> = scripts().into_iter().filter(|script| script.is_among_worst).collect();
    assert!(worst.len() >= 12, "{} scripts", worst.len());
    // Each worker runs three scripts, so that all scripts run and the test does not take minutes.
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let port = served.port;
            let own: Vec<_> = (0..3)
                .map(|step| worst[(number * 3 + step) % worst.len()].text.clone())
                .collect();
            std::thread::spawn(move || {
                let mut client = RawClient::connect(port);
                for text in &own {
                    client.send(&["EVAL", text, "0"]);
                }
                own.iter().filter(|_| client.reply().is_some()).count()
            })
        })
        .collect();
    let answered: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    assert_eq!(answered, CONNECTIONS * 3, "every script has a reply");
    monitor.end(&format!(
        "{answered} of the worst scripts from {CONNECTIONS} connections at once"
    ));
}

#[test]
fn ten_thousand_heavy_scripts_in_a_pipeline_starve_nobody() {
    let served = Served::start(&[]);
    let monitor = Monitor::start(&served);
    let mut client = RawClient::connect(served.port);
    let request = "EVAL \"for i = 1, 100000 do end\" 0\r\n".repeat(10_000);
    let mut sender = client.cloned_stream();
    // The test does not wait for the remaining replies. It measures how other clients are served meanwhile.
    let sending = std::thread::spawn(move || drop(sender.write_all(request.as_bytes())));
    for _ in 0..2_000 {
        assert_eq!(client.reply().as_deref(), Some("$-1"));
    }
    drop(client);
    monitor.end("2000 heavy scripts out of a pipeline of 10000");
    drop(served);
    sending.join().unwrap();
}

#[test]
fn a_transaction_of_endless_scripts_starves_nobody() {
    let served = Served::start(&[]);
    let monitor = Monitor::start(&served);
    let mut client = RawClient::connect(served.port);
    client.send(&["MULTI"]);
    for _ in 0..1_000 {
        client.send(&["EVAL", "while true do end", "0"]);
    }
    client.send(&["EXEC"]);
    let replies: Vec<_> = (0..1_002).map_while(|_| client.item()).collect();
    assert_eq!(replies.last().map(String::as_str), Some("*1000"));
    for _ in 0..1_000 {
        assert!(client.item().unwrap().starts_with("-BUSY"));
    }
    monitor.end("1000 endless scripts in a transaction");
}

#[test]
fn a_large_value_read_many_times_takes_no_memory() {
    let served = Served::start(&[]);
    let monitor = Monitor::start(&served);
    let value = "x".repeat(4_000_000);
    let mut writer = RawClient::connect(served.port);
    assert_eq!(writer.call(&["SET", "large", &value]).as_deref(), Some("+OK"));
    // Many clients send pipelines and do not read.
    let non_readers: Vec<_> = (0..50)
        .map(|_| {
            let mut client = RawClient::connect(served.port);
            client.send_raw("GET large\r\n".repeat(1_000).as_bytes());
            client
        })
        .collect();
    // One client sends a transaction and reads.
    writer.send_raw(format!("MULTI\r\n{}EXEC\r\n", "GET large\r\n".repeat(100)).as_bytes());
    let _ = (0..102).map_while(|_| writer.reply()).count();
    let keys = ["large"; 100];
    let mut many = vec!["MGET"];
    many.extend(keys);
    let mut another = RawClient::connect(served.port);
    if let Some(reply) = another.call(&many) {
        assert!(
            reply.starts_with("-ERR the reply is too large") || reply.starts_with("-OOM"),
            "{reply:.80}"
        );
    }
    drop(non_readers);
    monitor.end("4 MB requested by 50 clients that do not read");
}
