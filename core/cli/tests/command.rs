//! Tests of the `steadlock` command as a user runs it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

fn steadlock(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadlock"));
    command.args(arguments).env_remove("STEADLOCK_URL").stdin(Stdio::null());
    command
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Waits until the process ends, for at most 20 s.
fn wait(child: &mut Child) -> i32 {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().expect("the process ends by itself");
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the process does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A `steadlock serve` on a free port, stopped when dropped.
struct Served {
    process: Child,
    port: u16,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut process = steadlock(&["serve", "--port", "0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let line = first_line(&mut BufReader::new(process.stdout.take().unwrap()));
        let port = line.strip_prefix("steadlock: listening on redis://");
        let port = port.and_then(|address| address.rsplit_once(':'));
        let (_, port) = port.unwrap_or_else(|| panic!("serve printed {line:?}"));
        let port = port.parse().unwrap();
        Self { process, port }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends a command in its inline form, and returns the first line of the reply.
    fn send_inline(&self, line: &str) -> String {
        self.send_inline_to("127.0.0.1", line)
    }

    fn send_inline_to(&self, host: &str, line: &str) -> String {
        let mut stream = TcpStream::connect((host, self.port)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        first_line(&mut BufReader::new(stream))
    }

    fn run(&self, arguments: &[&str]) -> Command {
        let mut command = steadlock(&["run", "--url", &self.url()]);
        command.args(arguments);
        command
    }

    /// Starts a `steadlock run` and waits until its command has printed "ready".
    fn run_until_ready(&self, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut child = self
            .run(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(first_line(&mut output), "ready");
        (child, output)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn first_line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("steadlock-cli-{}-{name}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

/// Returns the path of a file that does not exist. The path is unique to this process: a fixed path could exist.
fn missing() -> String {
    let folder = format!("steadlock-cli-{}-missing", std::process::id());
    let path = std::env::temp_dir().join(folder).join("file");
    path.into_os_string().into_string().unwrap()
}

#[test]
fn serve_answers_and_stops_at_once() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut served = Served::start(&[]);
        assert_eq!(served.send_inline("PING"), "+PONG");
        // Neither an idle client nor a script that never ends delays the stop.
        let _idle = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        if signal == Signal::INT {
            let mut busy = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
            busy.write_all(b"EVAL \"while true do end\" 0\r\n").unwrap();
        }
        send(&served.process, signal);
        let asked = Instant::now();
        assert_eq!(wait(&mut served.process), 0);
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    }
}

#[test]
fn serve_prints_that_it_is_a_development_server() {
    let mut child = steadlock(&["serve", "--port", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    first_line(&mut BufReader::new(child.stdout.take().unwrap()));
    send(&child, Signal::TERM);
    let mut banner = String::new();
    child.stderr.take().unwrap().read_to_string(&mut banner).unwrap();
    assert_eq!(wait(&mut child), 0);
    assert!(
        banner.contains("development server") && banner.contains("Redis") && banner.contains("Valkey"),
        "{banner}"
    );
}

#[test]
fn serve_asks_for_the_password_of_its_file() {
    let path = file("password", "s3cret\n");
    let served = Served::start(&["--password-file", path.to_str().unwrap()]);
    assert!(served.send_inline("GET a").starts_with("-NOAUTH"));
    assert!(served.send_inline("AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(served.send_inline("AUTH s3cret"), "+OK");
    let url = format!("redis://:s3cret@127.0.0.1:{}", served.port);
    let output = steadlock(&["run", "stock", "--", "true"])
        .env("STEADLOCK_URL", &url)
        .output()
        .unwrap();
    assert_eq!(status(&output), 0, "{}", errors(&output));
    let wrong = url.replace("s3cret", "wr0ng");
    let output = steadlock(&["run", "stock", "--", "true"])
        .env("STEADLOCK_URL", &wrong)
        .output()
        .unwrap();
    assert_eq!(status(&output), 78, "{}", errors(&output));
    assert!(!errors(&output).contains("wr0ng"), "{}", errors(&output));
    std::fs::remove_file(path).unwrap();
}

/// Secret managers and environment files write quotes and spaces around a URL.
#[test]
fn spaces_and_quotes_around_a_url_are_dropped_or_named() {
    let served = Served::start(&[]);
    let plain = format!("redis://:swordfish@127.0.0.1:{}", served.port);
    let run = |url: &str, by_variable: bool| {
        let mut command = if by_variable {
            let mut command = steadlock(&["run", "stock", "--", "true"]);
            command.env("STEADLOCK_URL", url);
            command
        } else {
            steadlock(&["run", "--url", url, "stock", "--", "true"])
        };
        let output = command.output().unwrap();
        (status(&output), errors(&output))
    };
    let url = served.url();
    for by_variable in [false, true] {
        for good in [
            format!("{url}\n"),
            format!(" \t{url}\r\n"),
            format!("\u{feff}{url}"),
            url.replace("redis:", "valkey:"),
            url.replace("redis:", "VALKEY:"),
        ] {
            assert_eq!(run(&good, by_variable), (0, String::new()), "{good:?}");
        }
        for (bad, text) in [
            (format!("\"{plain}\""), "the URL has quotes around it"),
            (format!("'{plain}'\n"), "the URL has quotes around it"),
            (
                plain.replace("sword", "sword "),
                "the URL has a space in it, as character 15",
            ),
            (
                plain.replace("fish", "\tfish"),
                "the URL has a tab in it, as character 15",
            ),
            ("\n MEMORY://".to_owned(), "memory:// excludes nobody"),
        ] {
            let (status, printed) = run(&bad, by_variable);
            assert_eq!(status, 78, "{bad:?}: {printed}");
            assert!(
                printed.contains(text) && !printed.contains("fish"),
                "{bad:?}: {printed}"
            );
        }
    }
}

/// Other Redis clients use the server, too, such as those of the demo's programs.
#[test]
fn redis_cli_talks_to_serve() {
    let served = Served::start(&[]);
    let ask = |protocol: &[&str], arguments: &[&str]| {
        let output = Command::new("redis-cli")
            .args(protocol)
            .args(["-p", &served.port.to_string()])
            .args(arguments)
            .output()
            .expect("redis-cli, which comes with redis-server");
        assert!(output.status.success(), "{arguments:?}: {}", errors(&output));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    for protocol in [&[][..], &["-3"]] {
        assert_eq!(ask(protocol, &["PING"]), "PONG");
        assert_eq!(ask(protocol, &["SET", "stock", "7", "PX", "60000"]), "OK");
        assert_eq!(ask(protocol, &["GET", "stock"]), "7");
        let script = "return {redis.call('decr', KEYS[1]), redis.call('pttl', KEYS[1]) > 0}";
        assert_eq!(ask(protocol, &["EVAL", script, "1", "stock"]), "6\n1");
        assert_eq!(ask(protocol, &["HSET", "record", "owner", "1"]), "1");
        // RESP2 prints a line for the field and one for its value, RESP3 one line for the pair.
        assert_eq!(ask(protocol, &["HGETALL", "record"]).replace('\n', " "), "owner 1");
        assert!(ask(protocol, &["HGET", "stock", "owner"]).starts_with("WRONGTYPE"));
        assert!(ask(protocol, &["NONSENSE"]).starts_with("ERR unknown command"));
        assert_eq!(ask(protocol, &["FLUSHALL"]), "OK");
        assert_eq!(ask(protocol, &["EXISTS", "stock", "record"]), "0");
    }
}

#[test]
fn serve_refuses_a_port_in_use_and_unusable_password_files() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = steadlock(&["serve", "--port", &port]).output().unwrap();
    assert_eq!(status(&output), 69);
    assert!(errors(&output).contains(&port), "{}", errors(&output));

    let empty = file("empty", "\n");
    let missing = missing();
    for path in [empty.to_str().unwrap(), &missing] {
        let output = steadlock(&["serve", "--port", "0", "--password-file", path])
            .output()
            .unwrap();
        assert_eq!(status(&output), 78);
        assert!(errors(&output).contains("--password-file"), "{}", errors(&output));
    }
    std::fs::remove_file(empty).unwrap();
}

#[test]
fn serve_admits_the_network_only_with_a_password_or_by_insecure() {
    for address in ["0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1"] {
        let output = steadlock(&["serve", "--port", "0", "--bind", address])
            .output()
            .unwrap();
        assert_eq!(status(&output), 78, "{address}");
        let text = errors(&output);
        assert!(
            text.contains("--password-file") && text.contains("--insecure"),
            "{text}"
        );
    }
    let path = file("network", "s3cret");
    let password = ["--password-file", path.to_str().unwrap()];
    for arguments in [
        &["--bind", "0.0.0.0", "--insecure"][..],
        &["--bind", "0.0.0.0", password[0], password[1]],
        &["--bind", "127.0.0.2"],
        &["--bind", "::ffff:127.0.0.1"],
    ] {
        let mut child = steadlock(&["serve", "--port", "0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let line = first_line(&mut BufReader::new(child.stdout.take().unwrap()));
        assert!(
            line.starts_with("steadlock: listening on redis://"),
            "{arguments:?}: {line}"
        );
        send(&child, Signal::TERM);
        assert_eq!(wait(&mut child), 0);
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn beyond_loopback_only_own_scripts_run_without_scripts_any() {
    let open = ["--bind", "0.0.0.0", "--insecure"];
    let refused = "-ERR this server runs only the scripts of Steadlock";
    for (arguments, is_refused) in [
        (&[][..], false),
        (&["--bind", "127.0.0.2"], false),
        (&["--scripts", "own"], true),
        (&open, true),
        (&["--http", "0.0.0.0:0", "--insecure"], true),
        (&["--http", "0"], false),
        (&["--bind", "0.0.0.0", "--insecure", "--scripts", "any"], false),
    ] {
        let served = Served::start(arguments);
        for line in ["EVAL \"return 'mine'\" 0", "SCRIPT LOAD \"return 'mine'\""] {
            let host = if arguments.contains(&"127.0.0.2") {
                "127.0.0.2"
            } else {
                "127.0.0.1"
            };
            let printed = served.send_inline_to(host, line);
            assert_eq!(printed.starts_with(refused), is_refused, "{arguments:?}: {printed}");
            let names_all = printed.contains(env!("CARGO_PKG_VERSION")) && printed.contains("--scripts any");
            assert!(!is_refused || names_all, "{printed}");
        }
    }
    let served = Served::start(&open);
    let output = served.run(&["stock", "--", "true"]).output().unwrap();
    assert_eq!(status(&output), 0, "locks work there: {}", errors(&output));
    assert!(served.send_inline("SCRIPT LOAD \"return 1\"").starts_with(refused));
    let sha1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    assert!(
        served
            .send_inline(&format!("EVALSHA {sha1} 0"))
            .starts_with("-NOSCRIPT")
    );
}

#[test]
fn run_exits_with_the_status_of_the_command() {
    let served = Served::start(&[]);
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let output = served.run(&["stock", "--", "sh", "-c", script]).output().unwrap();
        assert_eq!(status(&output), expected, "{script}: {}", errors(&output));
        assert_eq!(
            served.send_inline("EXISTS stock"),
            ":0",
            "the lock is free after {script}"
        );
    }
}

#[test]
fn the_command_gets_the_name_of_the_lock_and_the_token() {
    let served = Served::start(&[]);
    let show = &["stock", "--", "sh", "-c", "echo $STEADLOCK_LOCK $STEADLOCK_TOKEN"];
    let mut last = 0;
    for _ in 0..2 {
        let output = served.run(show).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (name, token) = text.trim().split_once(' ').unwrap();
        let token: u64 = token.parse().unwrap();
        assert_eq!(name, "stock");
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

#[test]
fn a_second_run_waits_or_is_refused() {
    let served = Served::start(&[]);
    let (mut first, _output) = served.run_until_ready(&["stock", "--", "sh", "-c", "echo ready; cat > /dev/null"]);
    for wait in ["0", "0.5"] {
        let refused = served
            .run(&["--wait", wait, "stock", "--", "echo", "ran"])
            .output()
            .unwrap();
        assert_eq!(status(&refused), 75, "{}", errors(&refused));
        assert!(refused.stdout.is_empty(), "the command did not run");
        assert!(errors(&refused).contains("stock"), "{}", errors(&refused));
        // The first call of this client is refused, and the error still names the holder.
        let named = format!("pid {} on ", first.id());
        assert!(errors(&refused).contains(&named), "{}", errors(&refused));
    }
    let mut waiting = served.run(&["--wait", "20", "stock", "--", "true"]).spawn().unwrap();
    // The first command ends when its standard input is closed.
    drop(first.stdin.take());
    assert_eq!(wait(&mut first), 0);
    assert_eq!(wait(&mut waiting), 0);
}

#[test]
fn a_lost_lock_ends_the_command() {
    let served = Served::start(&[]);
    let trap = "trap 'echo ended; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let (mut child, mut output) = served.run_until_ready(&["--lease", "3", "stock", "--", "sh", "-c", trap]);
    assert_eq!(served.send_inline("DEL stock"), ":1");
    assert_eq!(first_line(&mut output), "ended");
    assert_eq!(wait(&mut child), 74);
}

#[test]
fn a_loss_found_by_the_release_is_reported() {
    let served = Served::start(&[]);
    let (mut child, _output) = served.run_until_ready(&["stock", "--", "sh", "-c", "echo ready; cat > /dev/null"]);
    assert_eq!(served.send_inline("DEL stock"), ":1");
    // The command ends long before the next renewal could find the loss.
    drop(child.stdin.take());
    assert_eq!(wait(&mut child), 74);
}

#[test]
fn signals_reach_the_command() {
    let served = Served::start(&[]);
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        let trap = format!("trap 'exit 9' {name}; echo ready; while :; do sleep 0.05; done");
        let (mut child, _output) = served.run_until_ready(&["stock", "--", "sh", "-c", &trap]);
        send(&child, signal);
        assert_eq!(wait(&mut child), 9, "{name}");
        assert_eq!(served.send_inline("EXISTS stock"), ":0");
    }
}

#[test]
fn a_signal_while_waiting_ends_the_wait() {
    let served = Served::start(&[]);
    served.send_inline("HSET stock 00000000-0000-4000-8000-000000000002:1 1");
    let mut child = served.run(&["stock", "--", "true"]).spawn().unwrap();
    // A waiter has subscribed to the lock's channel.
    let deadline = Instant::now() + Duration::from_secs(10);
    while served.send_inline("PUBLISH redisson_lock__channel:{stock} x") != ":1" {
        assert!(Instant::now() < deadline, "the command does not wait");
    }
    send(&child, Signal::TERM);
    assert_eq!(wait(&mut child), 143);
    assert_eq!(
        served.send_inline("HEXISTS stock 00000000-0000-4000-8000-000000000002:1"),
        ":1"
    );
    assert_eq!(served.send_inline("HLEN stock"), ":1");
}

#[test]
fn each_failure_to_run_has_its_exit_status() {
    let served = Served::start(&[]);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = format!("redis://127.0.0.1:{free}");
    let long = "n".repeat(513);
    let url = served.url();
    let missing = missing();
    for (arguments, expected) in [
        (&["--url", &nobody, "stock", "--", "true"][..], 69),
        (&["--url", "nonsense", "stock", "--", "true"], 78),
        (&["--url", "memory://", "stock", "--", "true"], 78),
        (&["stock", "--", "true"], 78),
        (&["--url", &url, "", "--", "true"], 78),
        (&["--url", &url, &long, "--", "true"], 78),
        (&["--url", &url, "--lease", "0.1", "stock", "--", "true"], 78),
        (&["--url", &url, "--lease", "-1", "stock", "--", "true"], 2),
        (&["--url", &url, "--wait", "soon", "stock", "--", "true"], 2),
        (&["--url", &url, "stock"], 2),
        (&["--url", &url, "stock", "--", &missing], 127),
        (&["--url", &url, "stock", "--", "/etc/passwd"], 126),
        (&["--url", &url, "stock", "--", "/no/\u{1b}[2J\u{9b}such"], 127),
    ] {
        let output = steadlock(&["run"]).args(arguments).output().unwrap();
        assert_eq!(status(&output), expected, "{arguments:?}: {}", errors(&output));
        assert!(!output.stderr.is_empty(), "{arguments:?} says nothing");
        assert!(!errors(&output).contains(['\u{1b}', '\u{9b}']), "{:?}", errors(&output));
    }
    assert_eq!(served.send_inline("EXISTS stock"), ":0");
    let left = "only the token and the descriptions of the three holders are left";
    assert_eq!(served.send_inline("DBSIZE"), ":4", "{left}");
}

#[test]
fn a_message_names_an_option_by_its_flag() {
    let missing = missing();
    let options = ["--url", "rediss://localhost:1", "--tls-ca-file", &missing];
    let output = steadlock(&["run"]).args(options).args(["stock", "--", "true"]).output();
    let printed = errors(&output.unwrap());
    let expected = format!("--tls-ca-file: there is no file {missing}");
    assert!(printed.contains(&expected), "{printed}");
}

#[test]
fn help_lists_the_exit_statuses() {
    let output = steadlock(&["run", "--help"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for status in ["69", "70", "74", "75", "78", "126", "127", "128 + n"] {
        assert!(text.contains(status), "{status} is missing in\n{text}");
    }
}

/// `nohup` makes a program and all its children ignore SIGHUP.
#[test]
fn a_signal_ignored_from_the_start_ends_nothing() {
    let served = Served::start(&[]);
    let mut child = Command::new("nohup")
        .arg(env!("CARGO_BIN_EXE_steadlock"))
        .args(["run", "--url", &served.url(), "stock", "--", "sh", "-c"])
        .arg("echo ready; kill -HUP $$; read line; exit 4")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(first_line(&mut output), "ready");
    send(&child, Signal::HUP);
    assert_eq!(served.send_inline("EXISTS stock"), ":1", "the lock is held");
    drop(child.stdin.take());
    assert_eq!(wait(&mut child), 4, "the command ended by itself");
}
