//! Clients that connect and then send nothing, or almost nothing.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{Monitor, RawClient, Served, password_file};

/// Raises the limit on open files of this process to the maximum, and returns it.
fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    limit
        .maximum
        .map_or(usize::MAX, |files| usize::try_from(files).unwrap())
}

#[test]
fn thousands_of_idle_and_slow_clients_keep_nobody_out() {
    let count = 10_000.min(raise_open_files().saturating_sub(300));
    let served = Served::start(&[]);
    let monitor = Monitor::start(&served);
    let mut idle_clients: Vec<TcpStream> = Vec::with_capacity(count);
    for number in 0..count {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        let begun: &[u8] = match number % 4 {
            0 => b"",
            1 => b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5000\r\nxxx",
            2 => b"GET a",
            _ => b"*2\r\n$4\r\n",
        };
        // The write fails if the server has already closed this connection to make room for another one.
        let _ = stream.write_all(begun);
        idle_clients.push(stream);
    }
    // Some of them send one byte at a time, for two seconds.
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        for stream in idle_clients.iter_mut().skip(2).step_by(40) {
            let _ = stream.write_all(b"x");
        }
    }
    for _ in 0..20 {
        assert_eq!(
            RawClient::connect(served.port).call(&["PING"]).as_deref(),
            Some("+PONG"),
            "a new client"
        );
    }
    monitor.end(&format!("{count} idle and slow clients"));
}

#[test]
fn clients_without_the_password_are_disconnected_after_a_while() {
    let path = password_file("idle_clients", "s3cret");
    let served = Served::start(&["--password-file", path.to_str().unwrap()]);
    let mut idle = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    let mut slow = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    slow.write_all(b"*2\r\n$4\r\nAUTH\r\n$6\r\ns3c").unwrap();
    let mut known = RawClient::connect(served.port);
    assert_eq!(known.call(&["AUTH", "s3cret"]).as_deref(), Some("+OK"));
    for stream in [&mut idle, &mut slow] {
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0, "the connection is closed");
    }
    assert_eq!(
        known.call(&["PING"]).as_deref(),
        Some("+PONG"),
        "a client that has logged in may be idle"
    );
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_endless_first_request_ends_the_connection() {
    let served = Served::start(&[]);
    let mut slow = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    slow.write_all(b"*2\r\n$4\r\nPI").unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    assert_eq!(slow.read(&mut [0; 10]).unwrap(), 0, "the connection is closed");
}

#[test]
fn requests_of_all_clients_together_are_bounded() {
    let served = Served::start(&[]);
    let monitor = Monitor::start(&served);
    let piece = vec![b'x'; 3_500_000];
    let mut open = Vec::new();
    for _ in 0..60 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        // An answered PING makes the connection known, so that the server does not close it first.
        stream
            .write_all(b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4000000\r\n")
            .unwrap();
        let _ = stream.write_all(&piece);
        open.push(stream);
    }
    drop(open);
    monitor.end("60 requests of 4 MB that are not finished");
}

#[test]
fn subscribers_that_do_not_read_are_disconnected() {
    let served = Served::start(&[]);
    let monitor = Monitor::start(&served);
    let mut non_readers: Vec<_> = (0..50)
        .map(|_| {
            let mut client = RawClient::connect(served.port);
            client.send(&["SUBSCRIBE", "channel"]);
            assert_eq!(client.reply().as_deref(), Some("*3"));
            client
        })
        .collect();
    let mut publisher = RawClient::connect(served.port);
    let message = "x".repeat(1_000_000);
    let deadline = Instant::now() + Duration::from_secs(20);
    // The messages pile up, and then the server closes the subscribers' connections.
    while publisher.call(&["PUBLISH", "channel", &message]).as_deref() != Some(":0") {
        assert!(Instant::now() < deadline, "the subscribers are still connected");
    }
    assert!(non_readers.iter_mut().all(RawClient::is_closed), "each is closed");
    monitor.end("50 subscribers that do not read");
}

#[test]
fn a_client_that_never_reads_replies_is_disconnected() {
    let served = Served::start(&[]);
    let mut writer = RawClient::connect(served.port);
    assert_eq!(
        writer.call(&["SET", "large", &"x".repeat(4_000_000)]).as_deref(),
        Some("+OK")
    );
    let mut non_reader = RawClient::connect(served.port);
    non_reader.send_raw(&b"GET large\r\n".repeat(100));
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let info = writer.bulk(&["INFO", "clients"]);
        if info.contains("connected_clients:1\r\n") {
            break;
        }
        assert!(Instant::now() < deadline, "{info}");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(non_reader);
}
