//! Jobs that run once, and leaders, as the command starts them.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(20);

/// A `steadlock serve` on a free port.
struct Served {
    process: Child,
    port: u16,
}

impl Served {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_steadlock"))
            .args(["serve", "--port", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let line = line(&mut BufReader::new(process.stdout.take().unwrap()));
        let port = line.rsplit(':').next().unwrap().parse().unwrap();
        Self { process, port }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steadlock"));
        command
            .args(arguments)
            .env("STEADLOCK_URL", format!("redis://127.0.0.1:{}", self.port))
            .stdin(Stdio::null());
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command to its end, and returns its exit status.
    fn status(&self, arguments: &[&str]) -> i32 {
        self.output(arguments).status.code().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_slice(&self.output(&[arguments, &["--json"]].concat()).stdout).unwrap()
    }

    fn start_command(&self, arguments: &[&str]) -> Started {
        let mut process = self.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Started { process, output }
    }

    fn send_inline(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        line(&mut BufReader::new(stream))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A command that runs.
struct Started {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Started {
    fn line(&mut self) -> String {
        line(&mut self.output)
    }

    fn send(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn end(&mut self) -> i32 {
        let mut ended = None;
        until("the command ends", || {
            ended = self.process.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap().code().expect("it ends by itself")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn line(of: &mut impl BufRead) -> String {
    let mut line = String::new();
    of.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_job_of_two_hosts_runs_once() {
    let served = Served::start();
    let run = ["run", "nightly", "--at-least", "10m", "--", "echo", "ran"];
    let first = served.output(&run);
    assert_eq!((first.status.code(), first.stdout.as_slice()), (Some(0), &b"ran\n"[..]));
    let second = served.output(&run);
    assert_eq!((second.status.code(), second.stdout.as_slice()), (Some(0), &b""[..]));
    let why = String::from_utf8(second.stderr).unwrap();
    assert!(
        why.contains("skipped: ") && why.contains("it can run again in"),
        "{why}"
    );
    let run = ["run", "nightly", "--once", "--skipped-status", "9", "--", "true"];
    assert_eq!(served.status(&run), 9);
    let released = served.output(&["release", "nightly", "--kind", "once", "--force"]);
    let text = String::from_utf8(released.stdout).unwrap();
    assert!(text.starts_with("nightly: the run was taken from "), "{text}");
    assert_eq!(released.status.code(), Some(0));
    assert_eq!(served.status(&run), 0);
}

#[test]
fn of_two_commands_that_start_shortly_after_each_other_one_runs() {
    let served = Served::start();
    let run = ["run", "nightly", "--at-least", "10m", "--", "echo", "ran"];
    let first = served.start_command(&run);
    std::thread::sleep(Duration::from_millis(200));
    let second = served.start_command(&run);
    let lines: Vec<String> = [first, second]
        .into_iter()
        .map(|mut started| {
            let line = started.line();
            assert_eq!(started.end(), 0);
            line
        })
        .collect();
    assert_eq!(lines.iter().filter(|line| *line == "ran").count(), 1, "{lines:?}");
}

#[test]
fn each_option_of_a_job_makes_the_command_a_job() {
    let served = Served::start();
    for (number, option) in [
        &["--once"][..],
        &["--at-least", "500ms"],
        &["--key", "k"],
        &["--key", "k", "--keep", "1h"],
        &["--keep-failures"],
        &["--skipped-status", "0"],
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("job-{number}");
        let run = |options: &[&str]| served.status(&[&["run", &name], options, &["--", "true"]].concat());
        assert_eq!(run(option), 0);
        let state = &served.json(&["jobs", &name])["jobs"][0]["state"];
        assert_eq!(*state, "ended", "{option:?}");
        assert_eq!(run(&[option, &["--wait", "1"]].concat()), 2, "{option:?}");
    }
}

#[test]
fn a_skip_is_one_line() {
    let served = Served::start();
    let run = ["run", "nightly", "--at-least", "10m", "--", "true"];
    assert_eq!(served.status(&run), 0);
    let skipped = served.output(&run);
    let line = String::from_utf8(skipped.stderr).unwrap();
    assert_eq!((skipped.status.code(), line.lines().count()), (Some(0), 1), "{line}");
}

#[test]
fn a_running_job_skips_others_and_is_listed() {
    let served = Served::start();
    let mut first = served.start_command(&["run", "nightly", "--once", "--", "sh", "-c", "echo up; exec sleep 60"]);
    assert_eq!(first.line(), "up");
    let second = served.output(&["run", "nightly", "--once", "--skipped-status", "9", "--", "true"]);
    assert_eq!(second.status.code(), Some(9));
    let why = String::from_utf8(second.stderr).unwrap();
    assert!(
        why.contains("steadlock (sh), pid") && why.contains("has been running it"),
        "{why}"
    );
    let list = served.json(&["list"]);
    assert_eq!(
        (&list["locks"][0]["kind"], &list["locks"][0]["name"]),
        (&"once".into(), &"nightly".into())
    );
    let jobs = served.json(&["jobs"]);
    assert_eq!(
        (&jobs["jobs"][0]["state"], &jobs["jobs"][0]["ended"]),
        (&"running".into(), &Value::Null)
    );
    let top = served.json(&["top", "--once"]);
    assert_eq!(top["locks"][0]["kind"], "once");
    let wait = ["wait", "nightly", "--kind", "once", "--timeout", "0"];
    assert_eq!(served.status(&wait), 75);
    first.send(Signal::TERM);
    assert_eq!(first.end(), 143);
    assert_eq!(served.status(&wait), 0);
    let jobs = served.json(&["jobs", "nightly"]);
    assert_eq!(jobs["jobs"][0]["ended"]["outcome"], "failed");
}

#[test]
fn a_key_that_is_done_is_skipped_and_a_failure_is_not_done() {
    let served = Served::start();
    let run = |more: &[&str], command: &str| {
        let options = ["run", "orders", "--key", "42", "--skipped-status", "9"];
        served.status(&[&options, more, &["--", "sh", "-c", command]].concat())
    };
    assert_eq!(run(&[], "exit 3"), 3);
    assert_eq!(run(&[], "test $STEADLOCK_KEY = 42"), 0);
    assert_eq!(run(&[], "exit 4"), 9);
    let other = ["run", "orders", "--key", "43", "--keep-failures", "--", "false"];
    assert_eq!(served.status(&other), 1);
    assert_eq!(
        served.status(&["run", "orders", "--key", "43", "--skipped-status", "9", "--", "true"]),
        9
    );
}

#[test]
fn a_job_whose_runner_was_killed_runs_again_when_its_lease_ends() {
    let served = Served::start();
    let mut first = served.start_command(&[
        "run",
        "nightly",
        "--once",
        "--lease",
        "1",
        "--",
        "sh",
        "-c",
        "echo up; exec sleep 60",
    ]);
    assert_eq!(first.line(), "up");
    first.send(Signal::KILL);
    let state = || served.json(&["jobs"])["jobs"][0]["state"].clone();
    until("the crash is shown", || state() == "crashed");
    let again = ["run", "nightly", "--once", "--skipped-status", "9", "--", "true"];
    assert_eq!(served.status(&again), 0);
    assert_eq!(state(), "ended");
}

#[test]
fn jobs_without_success_are_stale() {
    let served = Served::start();
    assert_eq!(served.status(&["jobs", "--stale", "1h"]), 0);
    assert_eq!(served.status(&["jobs", "unknown", "--stale", "1h"]), 1);
    assert_eq!(served.status(&["run", "good", "--once", "--", "true"]), 0);
    assert_eq!(served.status(&["jobs", "--stale", "1h"]), 0);
    assert_eq!(served.status(&["run", "bad", "--once", "--", "false"]), 1);
    let stale = served.output(&["jobs", "--stale", "26h"]);
    let lines = String::from_utf8(stale.stderr).unwrap();
    assert_eq!(
        (stale.status.code(), lines.as_str()),
        (Some(1), "steadlock: bad: no success within 26 h 0 min\n")
    );
    assert_eq!(served.status(&["jobs", "good", "--stale", "1h"]), 0);
    until("an hour is short", || {
        served.status(&["jobs", "good", "--stale", "1ms"]) == 1
    });
    let table = String::from_utf8(served.output(&["jobs"]).stdout).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("JOB") && lines[1].starts_with("bad   ended") && lines[2].starts_with("good"),
        "{table}"
    );
}

#[test]
fn a_command_can_hold_each_kind_of_lock() {
    let served = Served::start();
    let kind_of = |options: &[&str]| {
        let url = format!("redis://127.0.0.1:{}", served.port);
        let list = format!("{} list --json --url {url}", env!("CARGO_BIN_EXE_steadlock"));
        let output = served.output(&[&["run", "a"], options, &["--", "sh", "-c", &list]].concat());
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        list["locks"][0]["kind"].as_str().unwrap().to_owned()
    };
    for (options, kind) in [
        (&["--read"][..], "read_lock"),
        (&["--write"], "write_lock"),
        (&["--mutex"], "mutex"),
        (&["--permits", "2", "--limit", "3"], "semaphore"),
        (&["--once"], "once"),
        (&["--fair"], "lock"),
    ] {
        assert_eq!(
            kind_of(options),
            kind,
            "a fair lock without waiters is listed as a lock"
        );
    }
    for wrong in [
        &["--fair", "--read"][..],
        &["--permits", "2"],
        &["--once", "--wait", "1"],
        &["--key", "k", "--fair"],
        &["--keep", "1h"],
    ] {
        assert_eq!(
            served.status(&[&["run", "a"], wrong, &["--", "true"]].concat()),
            2,
            "{wrong:?}"
        );
    }
}

/// Starts a candidate whose command prints its term, and goes on until it is ended.
fn candidate(served: &Served, more: &[&str]) -> Started {
    let command = "echo $STEADLOCK_TERM; exec sleep 60";
    served.start_command(&[&["lead", "mail"], more, &["--", "sh", "-c", command]].concat())
}

#[test]
fn the_next_candidate_leads_when_a_leader_is_asked_to_end() {
    let served = Served::start();
    let mut first = candidate(&served, &[]);
    let term: u64 = first.line().parse().unwrap();
    assert_eq!(served.json(&["leader", "mail"])["term"], term);
    let mut second = candidate(&served, &[]);
    until("the second campaigns", || {
        served.json(&["leader", "mail"])["candidates"].as_array().unwrap().len() == 1
    });
    first.send(Signal::TERM);
    assert_eq!(first.end(), 143);
    let next: u64 = second.line().parse().unwrap();
    assert!(next > term);
    second.send(Signal::INT);
    assert_eq!(second.end(), 130);
    assert_eq!(served.status(&["leader", "mail"]), 1);
}

#[test]
fn a_lost_term_ends_the_command_and_the_process_campaigns_again() {
    let served = Served::start();
    let mut leader = candidate(&served, &["--term", "1"]);
    let first: u64 = leader.line().parse().unwrap();
    assert_eq!(served.send_inline("DEL steadlock:{mail}:leader"), ":1");
    let second: u64 = leader.line().parse().unwrap();
    assert!(second > first);
    leader.send(Signal::TERM);
    assert_eq!(leader.end(), 143);
}

#[test]
fn a_command_that_ends_by_itself_ends_the_lead_or_is_started_again() {
    let served = Served::start();
    assert_eq!(served.status(&["lead", "mail", "--", "sh", "-c", "exit 7"]), 7);
    let mut leader = served.start_command(&["lead", "mail", "--restart", "--", "sh", "-c", "echo $STEADLOCK_TERM"]);
    let terms: Vec<u64> = (0..3).map(|_| leader.line().parse().unwrap()).collect();
    assert!(terms.is_sorted() && terms[0] < terms[2], "{terms:?}");
    leader.send(Signal::TERM);
    leader.end();
}

#[test]
fn a_signal_that_comes_while_the_process_resigns_ends_the_lead() {
    let served = Served::start();
    // The server has stopped once each of its threads has.
    let command = format!(
        "echo up; kill -STOP {0}; while grep -q '^State:.[^T]' /proc/{0}/task/*/status; do :; done",
        served.process.id()
    );
    let mut leader = served.start_command(&["lead", "mail", "--restart", "--", "sh", "-c", &command]);
    assert_eq!(leader.line(), "up");
    let children = format!("/proc/{0}/task/{0}/children", leader.process.id());
    // The stopped server answers no release.
    until("the command has ended", || std::fs::read(&children).unwrap().is_empty());
    leader.send(Signal::TERM);
    assert_eq!(leader.end(), 0);
}

#[test]
fn an_observer_prints_each_change() {
    let served = Served::start();
    let mut observer = served.start_command(&["leader", "mail", "--watch"]);
    assert_eq!(observer.line(), "mail: nobody leads");
    let mut leader = candidate(&served, &[]);
    let term = leader.line();
    let line = observer.line();
    assert!(line.contains(&format!("leads in term {term}")), "{line}");
    leader.send(Signal::TERM);
    leader.end();
    assert_eq!(observer.line(), "mail: nobody leads");
}
