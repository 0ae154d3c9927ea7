//! The page of `steadlock serve --metrics`, with the requests of Prometheus and of others.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A `steadlock serve` on free ports, stopped when dropped.
struct Served {
    process: Child,
    port: u16,
    page: u16,
}

impl Served {
    fn start(metrics: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_steadlock"))
            .args(["serve", "--port", "0", "--metrics", metrics])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut port = |start: &str, end: &str| -> u16 {
            let line = lines.next().unwrap().unwrap();
            let port = line.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
            port.unwrap_or_else(|| panic!("it says {line:?}")).parse().unwrap()
        };
        let (redis, page) = (
            port("steadlock: listening on redis://127.0.0.1:", ""),
            port("steadlock: metrics on http://127.0.0.1:", "/metrics"),
        );
        Self {
            process,
            port: redis,
            page,
        }
    }

    /// Sends a command in its inline form, and returns the first line of the reply.
    fn send_inline(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).unwrap();
        reply.trim_end().to_owned()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.page)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends a request, and returns the whole answer.
    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // If the server refuses a request before it has read all of it, the connection is reset.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn page(&self) -> String {
        let answer = self.ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        body.to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn number(page: &str, start: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(start));
    let line = line.unwrap_or_else(|| panic!("no {start} in\n{page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_page_has_metrics_of_commands_keys_memory_clients_and_scripts() {
    let served = Served::start("0");
    let before = served.page();
    assert_eq!(number(&before, "steadlock_server_keys "), 0.0);
    assert_eq!(served.send_inline("SET secret-name 1 PX 60000"), "+OK");
    assert_eq!(served.send_inline("SET b 2"), "+OK");
    assert!(served.send_inline("INCR secret-name extra").starts_with("-ERR"));
    assert_eq!(
        served.send_inline("EVAL \"return redis.call('get',KEYS[1])\" 1 b"),
        "$1"
    );
    let _idle = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    let page = served.page();
    for (start, wanted) in [
        ("steadlock_server_keys ", 2.0),
        ("steadlock_server_expiring_keys ", 1.0),
        ("steadlock_server_scripts ", 1.0),
        ("steadlock_server_data_limit_bytes ", 96.0 * 1024.0 * 1024.0),
        ("steadlock_server_commands_total{command=\"set\"}", 2.0),
        ("steadlock_server_commands_total{command=\"eval\"}", 1.0),
        ("steadlock_server_commands_total{command=\"get\"}", 1.0),
        ("steadlock_server_command_errors_total{command=\"incr\"}", 1.0),
    ] {
        assert_eq!(number(&page, start), wanted, "{start}\n{page}");
    }
    assert!(number(&page, "steadlock_server_data_bytes ") > 0.0);
    assert!(number(&page, "steadlock_server_connections_total ") >= 4.0);
    assert!(number(&page, "steadlock_server_uptime_seconds ") > 0.0);
    assert!(!page.contains("secret-name"), "{page}");
}

#[test]
fn only_get_metrics_is_answered() {
    let served = Served::start("127.0.0.1:0");
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("GET /metrics/x HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("GET /metrics\r\n\r\n", "400"),
        ("GET /metrics HTTP/2\r\n\r\n", "400"),
        ("\r\n\r\n", "400"),
        ("GET /metrics?format=text HTTP/1.0\r\n\r\n", "200"),
    ] {
        let answer = served.ask(request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:?}: {answer}"
        );
    }
    let large = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(9_000));
    assert!(served.ask(&large).starts_with("HTTP/1.1 431 "));
}

#[test]
fn silent_clients_are_disconnected_and_others_answered() {
    let served = Served::start("0");
    let mut silent: Vec<TcpStream> = (0..8).map(|_| served.connect()).collect();
    for (number, stream) in silent.iter_mut().enumerate() {
        if number % 2 == 0 {
            stream.write_all(b"GET /met").unwrap();
        }
    }
    // The silent clients occupy all places, so this request waits until one of them is disconnected.
    assert!(served.page().contains("steadlock_server_uptime_seconds"));
    for mut stream in silent {
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        assert!(matches!(ended, Ok(0)) || ended.is_err(), "{rest:?}");
    }
}

#[test]
fn an_invalid_address_or_a_port_in_use_is_refused() {
    for wrong in ["x", "70000", "localhost:9465", ""] {
        let refused = Command::new(env!("CARGO_BIN_EXE_steadlock"))
            .args(["serve", "--port", "0", "--metrics", wrong])
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
    }
    let served = Served::start("0");
    let taken = Command::new(env!("CARGO_BIN_EXE_steadlock"))
        .args(["serve", "--port", "0", "--metrics", &served.page.to_string()])
        .output()
        .unwrap();
    assert!(!taken.status.success());
    let errors = String::from_utf8_lossy(&taken.stderr);
    assert!(
        errors.contains(&format!("cannot listen on 127.0.0.1:{}", served.page)),
        "{errors}"
    );
}
