//! No process of the command of `steadlock run` continues without the lock.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Starts processes that try in many ways to escape from a program that wants to end them. Each prints "up" once it has
/// escaped. In the last two chains each process only starts the next one and ends. A chain lasts half a minute at most.
const TREE: &str = r#"
    trap '' TERM
    (trap '' TERM HUP INT; echo up; while :; do sleep 0.05; done) &
    setsid sh -c 'trap "" TERM HUP; echo up; while :; do sleep 0.05; done' &
    (setsid sh -c '(trap "" TERM; echo up; while :; do sleep 0.05; done) &' &)
    nohup sh -c 'echo up; while :; do sleep 0.05; done' 2> /dev/null &
    next='[ "$1" -gt 0 ] && sh -c "$next" next $(($1 - 1)) &'
    export next
    sh -c "$next" next 5000
    setsid sh -c "$next" next 5000
    echo up
    while :; do sleep 0.05; done
"#;
const ESCAPED: usize = 5;

/// A `steadlock serve` on a free port.
struct Served {
    process: Child,
    port: u16,
}

impl Served {
    fn start() -> Self {
        let mut process = steadlock(&["serve", "--port", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let line = line(&mut BufReader::new(process.stdout.take().unwrap()));
        let port = line.rsplit(':').next().unwrap().parse().unwrap();
        Self { process, port }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn send_inline(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        line(&mut BufReader::new(stream))
    }

    fn run(&self, arguments: &[&str]) -> Run {
        Run::start(&self.url(), arguments)
    }

    /// Runs a shell script, and waits until it has printed "up" this many times.
    fn run_script(&self, arguments: &[&str], script: &str, ups: usize) -> Run {
        let mut run = self.run(&[arguments, &["stock", "--", "sh", "-c", script]].concat());
        for _ in 0..ups {
            assert_eq!(line(&mut run.output), "up");
        }
        run
    }

    fn is_free(&self) -> bool {
        self.send_inline("EXISTS stock") == ":0"
    }

    /// Returns whether a connection of the server has bytes that it has not read.
    fn has_unread(&self) -> bool {
        let port = format!(":{:04X}", self.port);
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        sockets.lines().skip(1).any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (local, state) = (words.next().unwrap(), words.nth(1).unwrap());
            let (_, unread) = words.next().unwrap().split_once(':').unwrap();
            let is_established = state == "01";
            is_established && local.ends_with(&port) && unread != "00000000"
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A `steadlock run` whose processes all have the same mark in their environment.
struct Run {
    process: Child,
    output: BufReader<ChildStdout>,
    mark: String,
}

impl Run {
    fn start(url: &str, arguments: &[&str]) -> Self {
        Self::start_by(steadlock(&[]), url, arguments)
    }

    fn start_by(mut steadlock: Command, url: &str, arguments: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("STEADLOCK_TEST_MARK={}.{count}.", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut process = steadlock
            .args(["run", "--url", url])
            .args(arguments)
            .env(name, value)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output, mark }
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the living processes of this run, without `steadlock run` itself.
    fn others(&self) -> BTreeSet<u32> {
        let is_marked = |pid: &u32| {
            // A zombie has no environment.
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            *pid != self.pid()
                && environment
                    .split(|&byte| byte == 0)
                    .any(|entry| entry == self.mark.as_bytes())
        };
        let entries = std::fs::read_dir("/proc").unwrap();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(is_marked).collect()
    }

    fn supervisor(&self) -> u32 {
        let is_it = |pid: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim_end() == "lock-supervisor"
        };
        self.others().into_iter().find(is_it).expect("it has a supervisor")
    }

    fn send(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    fn end(&mut self) -> i32 {
        until("the process ends", || self.process.try_wait().unwrap())
            .code()
            .expect("the process ends by itself")
    }

    fn has_ended_all(&self) -> bool {
        self.others().is_empty()
    }
}

/// Ends the processes that a failed test leaves behind.
impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        for pid in self.others() {
            let _ = kill_process(to_pid(pid), Signal::KILL);
        }
    }
}

fn steadlock(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadlock"));
    command.args(arguments).env_remove("STEADLOCK_URL").stdin(Stdio::null());
    command
}

/// Returns the command in a new session, which has no terminal. `setsid` keeps the process id.
fn steadlock_without_terminal() -> Command {
    let mut command = Command::new("setsid");
    command
        .arg(env!("CARGO_BIN_EXE_steadlock"))
        .env_remove("STEADLOCK_URL")
        .stdin(Stdio::null());
    command
}

fn to_pid(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

fn send(pid: u32, signal: Signal) {
    kill_process(to_pid(pid), signal).unwrap();
}

/// Stops a process, and waits until it has stopped.
fn stop(pid: u32) {
    send(pid, Signal::STOP);
    until("the process has stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.contains(") T ").then_some(())
    });
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Shorter than each timeout after which a server counts as unreachable. The shortest one is the command timeout, 3 s.
const PROMPTLY: Duration = Duration::from_millis(2_800);

#[test]
fn when_the_holder_was_killed_nothing_runs_once_another_has_the_lock() {
    let served = Served::start();
    let mut run = served.run_script(&["--lease", "4"], TREE, ESCAPED);
    let mut next = served.run(&["stock", "--", "sh", "-c", "echo mine; cat"]);
    run.send(Signal::KILL);
    assert_eq!(line(&mut next.output), "mine");
    assert_eq!(run.others(), BTreeSet::new());
    run.process.wait().unwrap();
    assert_eq!(next.end(), 0);
}

#[test]
fn when_the_supervisor_was_killed_the_holder_ends_its_orphans_and_fails() {
    let served = Served::start();
    let mut run = served.run_script(&[], TREE, ESCAPED);
    send(run.supervisor(), Signal::KILL);
    assert_eq!(run.end(), 70);
    assert_eq!(run.others(), BTreeSet::new());
    assert!(served.is_free());
}

/// The check includes the environment of the supervisor, which a list of processes shows as well.
#[test]
fn the_command_gets_the_url_only_with_pass_url() {
    let served = Served::start();
    let url = served.url();
    let hidden = format!("{url}/0");
    for (options, variable, expected) in [
        (&["run", "--lease", "5"][..], Some(url.as_str()), "-"),
        (&["run", "--url", &url], Some(&hidden), "-"),
        (&["run", "--url", &url], None, "-"),
        (&["run", "--pass-url"], Some(&url), &url),
        (&["run", "--pass-url", "--url", &url], Some(&hidden), &url),
    ] {
        let mut command = steadlock(options);
        if let Some(variable) = variable {
            command.env("STEADLOCK_URL", variable);
        }
        let parent = "tr '\\0' '\\n' < /proc/$PPID/environ | grep -c ^STEADLOCK_URL=";
        let script = format!("echo ${{STEADLOCK_URL--}} $STEADLOCK_LOCK ${{STEADLOCK_TOKEN:+token}} $({parent})");
        command.args(["stock", "--", "sh", "-c", &script]);
        let output = command.output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let of_parent = u8::from(expected != "-");
        assert_eq!(
            printed.trim_end(),
            format!("{expected} stock token {of_parent}"),
            "{options:?} {errors}"
        );
    }
}

/// If a container was entered from outside, the process group has no number in the container's namespace.
#[test]
fn orphans_end_even_if_the_process_group_is_outside_the_namespace() {
    let namespace = ["--pid", "--fork", "--mount-proc"];
    let probe = Command::new("unshare").args(namespace).arg("true").output().unwrap();
    if !probe.status.success() {
        println!("not tried: only root may make a namespace here");
        return;
    }
    let served = Served::start();
    let mut unshare = Command::new("unshare");
    unshare
        .args(namespace)
        .arg(env!("CARGO_BIN_EXE_steadlock"))
        .stdin(Stdio::null());
    let mut run = Run::start_by(unshare, &served.url(), &["stock", "--", "sh", "-c", TREE]);
    for _ in 0..ESCAPED {
        assert_eq!(line(&mut run.output), "up");
    }
    send(run.supervisor(), Signal::KILL);
    assert_eq!(run.end(), 70);
    assert_eq!(run.others(), BTreeSet::new());
    assert!(served.is_free());
}

#[test]
fn the_kernel_kills_the_command_if_neither_holder_nor_supervisor_can() {
    let served = Served::start();
    let run = served.run_script(&[], "trap '' TERM; echo up; while :; do sleep 0.05; done", 1);
    let supervisor = run.supervisor();
    stop(run.pid());
    assert!(run.others().len() > 1, "the processes still run");
    send(supervisor, Signal::KILL);
    until("all have ended", || run.has_ended_all().then_some(()));
}

/// When a process group has lost its last parent outside the group, the kernel continues its stopped processes.
#[test]
fn a_stopped_supervisor_continues_when_the_holder_is_killed() {
    let served = Served::start();
    let script = "trap '' TERM HUP; echo up; while :; do sleep 0.05; done";
    let arguments = ["stock", "--", "sh", "-c", script];
    let mut run = Run::start_by(steadlock_without_terminal(), &served.url(), &arguments);
    assert_eq!(line(&mut run.output), "up");
    stop(run.supervisor());
    run.send(Signal::KILL);
    until("all have ended", || run.has_ended_all().then_some(()));
}

#[test]
fn a_removed_lock_ends_processes_that_ignore_sigterm() {
    let served = Served::start();
    for kill_after in ["0.3", "0"] {
        let mut run = served.run_script(&["--lease", "4", "--kill-after", kill_after], TREE, ESCAPED);
        assert_eq!(served.send_inline("DEL stock"), ":1");
        assert_eq!(run.end(), 74);
        assert_eq!(run.others(), BTreeSet::new());
    }
}

#[test]
fn grandchildren_can_clean_up_when_the_lock_is_lost() {
    let served = Served::start();
    let script = "setsid sh -c 'trap \"echo tidied; exit\" TERM; echo up; while :; do sleep 0.05; done' & wait";
    let mut run = served.run_script(&["--lease", "4"], script, 1);
    assert_eq!(served.send_inline("DEL stock"), ":1");
    assert_eq!(line(&mut run.output), "tidied");
    assert_eq!(run.end(), 74);
}

#[test]
fn a_lock_that_cannot_be_renewed_ends_all_before_another_owner_can_hold_it() {
    let served = Served::start();
    let mut run = served.run_script(&["--lease", "5"], TREE, ESCAPED);
    send(served.process.id(), Signal::STOP);
    let stopped = Instant::now();
    until("all have ended", || run.has_ended_all().then_some(()));
    // The last renewal was before the server was stopped.
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    assert_eq!(run.end(), 74);
    send(served.process.id(), Signal::CONT);
}

#[test]
fn a_dead_server_ends_all() {
    let served = Served::start();
    let mut run = served.run_script(&["--lease", "4"], TREE, ESCAPED);
    drop(served);
    assert_eq!(run.end(), 74);
    assert_eq!(run.others(), BTreeSet::new());
}

#[test]
fn a_stopped_holder_cannot_renew_and_so_all_is_ended_in_time() {
    let served = Served::start();
    let mut run = served.run_script(&["--lease", "5"], TREE, ESCAPED);
    let mut next = served.run(&["stock", "--", "sh", "-c", "echo mine; cat"]);
    run.send(Signal::STOP);
    assert_eq!(line(&mut next.output), "mine");
    assert_eq!(run.others(), BTreeSet::new());
    run.send(Signal::CONT);
    assert_eq!(run.end(), 74);
    assert_eq!(next.end(), 0);
}

#[test]
fn leftover_processes_end_before_the_lock_is_free() {
    let served = Served::start();
    let script = "trap '' TERM; setsid sh -c 'while :; do sleep 0.05; done' & exit 7";
    let mut run = served.run_script(&["--kill-after", "0.3"], script, 0);
    assert_eq!(run.end(), 7);
    assert_eq!(run.others(), BTreeSet::new());
    assert!(served.is_free());
}

#[test]
fn a_signal_ends_leftover_processes_at_once() {
    let served = Served::start();
    let script = "trap '' TERM; setsid sh -c 'echo up; while :; do sleep 0.05; done' & exit 7";
    let mut run = served.run_script(&["--kill-after", "3600"], script, 1);
    // First the command and its supervisor run. Then only the process that was left behind runs, which executes
    // `sleep`.
    let shell =
        |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|text| text.contains("exit 7"));
    let supervisor = run.supervisor();
    until("the command has ended", || {
        let others = run.others();
        (!others.iter().any(|pid| *pid != supervisor && shell(pid))).then_some(())
    });
    until("steadlock run has ended", || {
        let _ = kill_process(to_pid(run.pid()), Signal::TERM);
        run.process.try_wait().unwrap()
    });
    assert_eq!(run.others(), BTreeSet::new());
}

/// `timeout --kill-after` and many job runners kill the whole group.
#[test]
fn when_the_whole_group_of_the_holder_is_killed_nothing_runs_once_another_has_the_lock() {
    let served = Served::start();
    let arguments = ["--lease", "4", "stock", "--", "sh", "-c", TREE];
    let mut run = Run::start_by(steadlock_without_terminal(), &served.url(), &arguments);
    for _ in 0..ESCAPED {
        assert_eq!(line(&mut run.output), "up");
    }
    let mut next = served.run(&["stock", "--", "sh", "-c", "echo mine; cat"]);
    kill_process_group(to_pid(run.pid()), Signal::KILL).unwrap();
    assert_eq!(line(&mut next.output), "mine");
    assert_eq!(run.others(), BTreeSet::new());
    run.process.wait().unwrap();
    assert_eq!(next.end(), 0);
}

#[test]
fn a_fork_chain_that_changes_its_session_at_each_step_is_ended() {
    let served = Served::start();
    let script = r#"
        next='[ "$1" -gt 0 ] && setsid sh -c "$next" next $(($1 - 1)) &'
        export next
        sh -c "$next" next 5000
        echo up
        while :; do sleep 0.05; done
    "#;
    let mut run = served.run_script(&["--lease", "4", "--kill-after", "0"], script, 1);
    assert_eq!(served.send_inline("DEL stock"), ":1");
    assert_eq!(run.end(), 74);
    assert_eq!(run.others(), BTreeSet::new());
}

#[test]
fn a_foreign_process_in_a_process_group_of_the_command_is_left_alone() {
    let served = Served::start();
    let script = "set -m; sleep 60 > /dev/null & echo $!; wait";
    let mut run = served.run(&["--lease", "4", "--kill-after", "0", "stock", "--", "bash", "-c", script]);
    let group = line(&mut run.output).parse().unwrap();
    let mut foreign = Command::new("sleep").arg("60").process_group(group).spawn().unwrap();
    assert_eq!(served.send_inline("DEL stock"), ":1");
    assert_eq!(run.end(), 74);
    assert_eq!(run.others(), BTreeSet::new());
    let ended = foreign.try_wait().unwrap();
    foreign.kill().unwrap();
    foreign.wait().unwrap();
    assert_eq!(ended, None);
}

/// If the command led a process group, `setsid` would start the program in a child and end at once.
#[test]
fn a_command_can_start_a_session_of_its_own() {
    let served = Served::start();
    let arguments = ["stock", "--", "setsid", "sh", "-c", "sleep 0.1; exit 7"];
    let mut run = Run::start_by(steadlock_without_terminal(), &served.url(), &arguments);
    assert_eq!(run.end(), 7);
}

#[test]
fn children_are_left_alone_with_leave_children() {
    let served = Served::start();
    let script = "setsid sleep 60 > /dev/null & exit 7";
    let mut run = served.run_script(&["--leave-children"], script, 0);
    assert_eq!(run.end(), 7);
    assert_eq!(run.others().len(), 1, "the child still runs");
    assert!(served.is_free());
}

#[test]
fn children_are_not_left_alone_when_the_lock_is_lost() {
    let served = Served::start();
    let mut run = served.run_script(
        &["--leave-children", "--lease", "4", "--kill-after", "0"],
        TREE,
        ESCAPED,
    );
    assert_eq!(served.send_inline("DEL stock"), ":1");
    assert_eq!(run.end(), 74);
    assert_eq!(run.others(), BTreeSet::new());
}

#[test]
fn a_signal_ends_a_connection_attempt() {
    for (signal, expected) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", silent.local_addr().unwrap());
        let mut run = Run::start(&url, &["stock", "--", "true"]);
        let _connection = silent.accept().unwrap();
        let asked = Instant::now();
        run.send(signal);
        assert_eq!(run.end(), expected);
        assert!(asked.elapsed() < PROMPTLY, "{:?}", asked.elapsed());
    }
}

#[test]
fn a_signal_during_the_wait_leaves_no_record_even_if_the_server_is_stopped() {
    const TTL: Duration = Duration::from_secs(1);
    let served = Served::start();
    served.send_inline("HSET stock 00000000-0000-4000-8000-000000000002:1 1");
    let mut run = served.run(&["stock", "--", "true"]);
    let is_waiting = || served.send_inline("PUBLISH redisson_lock__channel:{stock} x") == ":1";
    until("the waiter has subscribed", || is_waiting().then_some(()));
    // The waiter sends its next attempt when this TTL ends, or earlier as a poll. The server grants the attempt when it
    // continues after the end of the TTL.
    served.send_inline(&format!("PEXPIRE stock {}", TTL.as_millis()));
    let set = Instant::now();
    served.send_inline("PUBLISH redisson_lock__channel:{stock} 0");
    stop(served.process.id());
    until("an attempt has arrived", || served.has_unread().then_some(()));
    let asked = Instant::now();
    run.send(Signal::TERM);
    run.send(Signal::TERM);
    assert_eq!(run.end(), 143);
    assert!(asked.elapsed() < PROMPTLY, "{:?}", asked.elapsed());
    std::thread::sleep(TTL.saturating_sub(set.elapsed()));
    send(served.process.id(), Signal::CONT);
    // The record that the server then writes would last 30 s without a compensating release.
    let resumed = Instant::now();
    until("nothing is left", || served.is_free().then_some(()));
    assert!(resumed.elapsed() < Duration::from_secs(15), "{:?}", resumed.elapsed());
}

#[test]
fn a_signal_during_the_release_does_not_wait_for_the_server() {
    let served = Served::start();
    let mut run = served.run_script(&[], "echo up; sleep 0.5; exit 7", 1);
    send(served.process.id(), Signal::STOP);
    until("the command has ended", || run.has_ended_all().then_some(()));
    let asked = Instant::now();
    until("steadlock run has ended", || {
        let _ = kill_process(to_pid(run.pid()), Signal::TERM);
        run.process.try_wait().unwrap()
    });
    assert!(asked.elapsed() < PROMPTLY, "{:?}", asked.elapsed());
    assert_eq!(run.end(), 7, "the status is the command's own");
    send(served.process.id(), Signal::CONT);
    until("the lock is free", || served.is_free().then_some(()));
}

#[test]
fn the_command_inherits_no_file_of_ours() {
    let served = Served::start();
    let list = "for file in /proc/$$/fd/*; do echo ${file##*/}; done; echo end";
    let mut run = served.run_script(&[], list, 0);
    let mut under_lock = BTreeSet::new();
    until("all files are listed", || {
        let number = line(&mut run.output);
        (number == "end" || !under_lock.insert(number)).then_some(())
    });
    let alone = Command::new("sh")
        .args(["-c", list])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let alone = String::from_utf8(alone.stdout).unwrap();
    let alone: BTreeSet<String> = alone.lines().filter(|line| *line != "end").map(str::to_owned).collect();
    assert_eq!(under_lock, alone);
    assert_eq!(run.end(), 0);
}

#[test]
fn the_status_of_a_command_that_ends_at_once_is_returned() {
    let served = Served::start();
    for _ in 0..30 {
        let mut run = served.run_script(&[], "exit 3", 0);
        assert_eq!(run.end(), 3);
    }
}
